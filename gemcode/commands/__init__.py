"""What each subcommand does, one file each: settings in, exit code out. Imported by the command line, when needed."""
