"""From records, events and log lines to incidents: `incidents(decoded, events, log_lines)`; docs/design/diagnosis.md."""
