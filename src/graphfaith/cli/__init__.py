"""The command line: one file a command, and the application that they form."""
