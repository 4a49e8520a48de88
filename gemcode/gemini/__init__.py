"""Everything that knows the wire. Nothing outside this room imports google.genai."""
