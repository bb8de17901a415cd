"""Play schedules of real processes, or write the table of the failpoint matrix:

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.processes --schedules 50 --first-seed 7
PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.processes --write-table
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from faults.processes import steps_table
from faults.processes.matrix import recorded
from faults.processes.points import points
from faults.processes.process_schedules import counts, play
from faults.processes.verbs import VERBS
from faults.processes.workers import COUNT, Workers
from faults.simulation.tally import Tally


def main() -> int:
    """Play the schedules; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=0, help="number of schedules; ends at the first failure")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first schedule; the others count up")
    parser.add_argument("--workers", type=int, default=COUNT)
    parser.add_argument(
        "--write-table", action="store_true", help="record the steps of all verbs and write them to STEPS.md"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workers(Path(folder), arguments.workers) as workers:
        if arguments.write_table:
            found = {verb: workers.submit(recorded, verb) for verb in VERBS}
            steps_table.write(points({verb: future.result() for verb, future in found.items()}))
        return _played(workers, arguments.first_seed, arguments.schedules)


def _played(workers: Workers, first: int, count: int) -> int:
    tally, begun = Tally(), time.monotonic()
    parts = [workers.submit(play, range(seed, min(seed + 5, first + count))) for seed in range(first, first + count, 5)]
    for part in parts:
        found, wrong = part.result()
        tally.add(found)
        if wrong:
            print(wrong, flush=True)
            return 1
        print(f"{tally.schedules} schedules, {tally.crashes} faults, {time.monotonic() - begun:.0f} s", flush=True)
    if count:
        print(counts(tally))
    return 0


if __name__ == "__main__":
    sys.exit(main())
