"""The race: this pipeline and what people would use instead count one log, in one run."""
