"""A whole Tally under load, broken on purpose by a schedule that a seed makes; docs/chaos.md.

schedule.py     which harm comes when: a pure function of the seed
harms.py        what each harm does to the site
site.py         the parts, each behind a proxy, on a disk and with a clock of its own
bugs.py         what of their output is a bug; ends.py, which of their ends are
workload.py     increments of every sort; sender.py and senders/ send them, each process its way
run.py          one run: site, senders, harms, quiet, and the truth checker
"""
