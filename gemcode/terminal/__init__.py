"""REPL and rendering: the only room that writes to the screen."""
