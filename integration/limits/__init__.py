"""What no broker writes: records larger than a topic takes."""
