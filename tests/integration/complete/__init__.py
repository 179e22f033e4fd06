"""Everything at once: events of every sort, every server killed, every number compared."""
