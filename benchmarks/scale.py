"""What so many increments a second need, computed from the measured figures of one machine.

Run: python -m benchmarks.scale [--rate N] [--write] [--json FILE]

The figures are in docs/benchmarks/scale_inputs.toml, each with the command that measured it; edit
them and run this again. `--rate` tells the steps for one rate and every way of sending; `--write`
puts the tables into docs/scale.md. It measures nothing itself.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import _scale_page as page
from benchmarks._kit import write_json
from benchmarks._pages import written
from benchmarks._scale_inputs import INPUTS, SENDINGS, InputsError, load_inputs
from benchmarks._scale_model import need
from benchmarks._scale_steps import steps

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
RATE_MAX = 1e10


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--inputs", type=Path, default=INPUTS, help="another file of figures")
    options.add_argument("--rate", type=float, help="the steps for so many increments a second")
    options.add_argument("--write", action="store_true", help="write into docs/scale.md")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    if given.rate is not None and not 1 <= given.rate <= RATE_MAX:
        options.error(f"--rate is from 1 to {RATE_MAX:,.0f} increments a second")
    if given.write and given.inputs != INPUTS:
        options.error(f"--write makes the page of {INPUTS.name} alone: leave --inputs out")
    try:
        inputs = load_inputs(given.inputs)
    except InputsError as error:
        sys.exit(f"scale: {error}")
    if given.rate is not None:
        for sending in SENDINGS:
            print(f"{page.TITLES[sending]}\n{steps(inputs, need(inputs, given.rate, sending))}\n")
    else:
        print(page.section(inputs))
    if given.write:
        PAGE.write_text(written(PAGE.read_text(), page.BEGIN, page.END, page.section(inputs)))
    needs = [asdict(need(inputs, rate, sending)) for sending in SENDINGS for rate in page.RATES]
    write_json(given.json, "scale", {"needs": needs})


if __name__ == "__main__":
    main()
