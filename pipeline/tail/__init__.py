"""Live decoded events, for people who watch the log."""
