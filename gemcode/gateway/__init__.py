"""HTTP in, Gemini out: clients of other model services run on Gemini. Imports agent and gemini, never the loop."""
