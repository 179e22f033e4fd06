"""Which kind of counter fits: a tree of questions, and what follows from the answers. Pure."""
