"""What people ask: counts, why a number is what it is, how a running Tally is doing."""
