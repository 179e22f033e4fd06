"""Metrics: what each is called and means, their values in a process, and how they are served."""
