"""gemcode: an interactive terminal coding assistant for Google Gemini."""

__version__ = "0.1.0"
