"""The vocabulary and the loop. Imports only the standard library and pydantic."""
