"""Timers and background tasks, without a clock or a loop."""
