"""Synthetic load through the producer: made from a seed, sent at a rate, with the truth beside."""
