"""Play one schedule of the simulation, or many:

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.simulation --seed 7
PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.simulation --seed 0 --schedules 100000 --processes 2
"""

import argparse
import sys
import time

from faults.drawn_schedules import schedule
from faults.simulation.seeds import play_side_by_side
from faults.simulation.shrinking import as_python
from faults.simulation.tally import Tally


def main() -> int:
    """Play the schedules; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="seed of the first schedule")
    parser.add_argument("--schedules", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.schedules == 1:
        print(as_python(schedule(arguments.seed)))
    tally, begun = Tally(), time.monotonic()
    for part, failure in play_side_by_side(arguments.seed, arguments.schedules, arguments.processes):
        tally.add(part)
        if failure is not None:
            print(failure)
            return 1
        print(
            f"{tally.schedules} schedules, {tally.crashes} faults, {tally.commits} commits, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    for name, counted in tally.numbers().items():
        print(f"{name}: {counted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
