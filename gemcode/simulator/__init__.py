"""A local Gemini API that judges requests as the real service does and answers from a script. Imports no other room."""
