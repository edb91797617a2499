"""The command line: options, log output, exit codes."""
