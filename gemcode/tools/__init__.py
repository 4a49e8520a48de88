"""The tools, one file each. Adding one is a file and a line here."""
