"""Compile all kernels ahead of their first use: `python -m pipeline.native`."""

from pipeline.native.loading import kernels

kernels.load()
