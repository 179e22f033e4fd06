"""`python -m pipeline.cli`, the same as the command `tally`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
