"""Servers with the interfaces of the real ones, for one machine and no set-up."""
