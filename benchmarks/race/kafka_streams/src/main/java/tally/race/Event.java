package tally.race;

/** What is counted of an event: who did it, and where, is read past. */
record Event(String counter, long delta, long at) {}
