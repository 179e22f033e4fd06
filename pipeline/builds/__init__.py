"""Builds: countings of the log. Which one is live, counting anew, comparing, taking over."""
