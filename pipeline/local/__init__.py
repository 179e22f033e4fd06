"""Everything on one machine: `tally up` and `tally demo`."""
