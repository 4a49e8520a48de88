"""The only code that touches the project's files."""
