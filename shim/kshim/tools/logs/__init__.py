"""Logs as the tools read them: from the folders of a stopped or running broker, or from a broker by Fetch."""
