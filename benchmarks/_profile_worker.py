"""`tally worker` with a sampler in it, run by benchmarks.profile, which names its file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks._profile_sampler import SAMPLES, Sampler
from pipeline.cli import main

if __name__ == "__main__":
    Sampler(Path(os.environ[SAMPLES])).start()
    sys.argv = ["tally", "worker"]
    main()
