"""Kernels: the loops over bytes and columns that no library has, compiled by Numba.

Each is a function on arrays with no I/O, no clock and no Python object, and does what slower code
elsewhere does as well: so nothing depends on whether kernels are there, but speed. They are loaded
when a worker has much to count (`loading.py`), since importing a compiler takes a third of a
second; the machine code is kept on the disk, and is made by `python -m pipeline.native`.
"""
