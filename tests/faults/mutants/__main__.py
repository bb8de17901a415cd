"""Search the first schedule that detects each mutant, and record its seed in the tables:

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.mutants NAME ... [--from SEED] [--schedules N]

Needed when schedules are drawn in another way than before, or for a new mutant, whose entry says `seen_by = "simulation 0"`
or `"processes 0"`. Without --from it begins where schedules of the recorded kind begin.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from faults.drawn_schedules import OUTSIDE, STATEFUL
from faults.mutants.mutant import PROCESSES, SIMULATION, TABLES, Mutant, every
from faults.mutants.mutant_runner import simulated, with_processes
from faults.mutants.trials import trials

PLAYS = {SIMULATION: simulated, PROCESSES: with_processes}


def beginning(mutant: Mutant) -> int:
    """Return the first seed of the schedules of the kind that is recorded: with a table, outside of the ledger, with a state."""
    return max(first for first in (0, OUTSIDE, STATEFUL) if first <= mutant.seed)


def main() -> int:
    """Search, record and report; return 1 if nothing was found for a mutant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all that schedules detect if there is none")
    parser.add_argument("--from", dest="first", type=int, help="the first seed")
    parser.add_argument("--schedules", type=int, default=150, help="most schedules for each; default: 150")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    mutants = [mutant for mutant in every() if mutant.level in PLAYS and mutant.name in (asked.names or [mutant.name])]
    missing = 0
    with tempfile.TemporaryDirectory() as folder, trials(Path(folder), asked.processes) as pool:
        tried = []
        for mutant in mutants:
            first = beginning(mutant) if asked.first is None else asked.first
            seeds = range(first, first + asked.schedules)
            tried.append((mutant, pool.submit(mutant, PLAYS[mutant.level], seeds)))
        for mutant, result in tried:
            verdict = result.result()
            missing += not verdict.found
            found = f"{mutant.level} {verdict.seed}" if verdict.found else "nothing was found"
            print(f"{mutant.name}: {found}", flush=True)
            if verdict.found:
                record(mutant, found)
    return 1 if missing else 0


def record(mutant: Mutant, seen_by: str) -> None:
    """Write what detects a mutant into its table."""
    [table] = [path for path in TABLES if path.stem == mutant.table]
    before, head, rest = table.read_text(encoding="utf-8").partition(f"\n[{mutant.name}]\n")
    changed = rest.replace(f'seen_by = "{mutant.seen_by}"', f'seen_by = "{seen_by}"', 1)
    table.write_text(before + head + changed, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
