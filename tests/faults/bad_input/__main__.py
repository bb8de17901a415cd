"""Long runs of bad input: python -m faults.bad_input --records N --first-seed S [--parser-only]"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from faults.bad_input.parsing import parse

HERE = Path(__file__).parent
SAID_EVERY = 10
"""Seconds."""
MOST_IN_A_ROUND = 50_000
"""The records of one load are kept in memory for the comparison."""


def main() -> int:
    """Run; return 0 if no check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--parser-only", action="store_true", help="only decode; without Kafka, Spark and Postgres")
    arguments = parser.parse_args()
    if arguments.parser_only:
        return _parse(arguments.first_seed, arguments.records)
    return _load(arguments.first_seed, arguments.records)


def _parse(seed: int, count: int) -> int:
    """Decode batches. Print a line now and then: if a seed ends the whole process, the last line shows where to look."""
    records = kept = batches = 0
    classes: Counter[str] = Counter()
    began = said = time.monotonic()
    for parsed in parse(seed, count):
        records, kept, batches = records + parsed.records, kept + parsed.kept, batches + 1
        classes += parsed.classes
        if time.monotonic() - said > SAID_EVERY:
            said = time.monotonic()
            print(f"{records:,} records, next seed {seed + batches}", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{records:,} records of {len(classes)} classes, {kept:,} kept, seeds {seed} to {seed + batches - 1}, {seconds:.0f} s"
    )
    return 0


def _load(seed: int, count: int) -> int:
    """Run the test with pytest, which starts the servers; one round per seed."""
    command = [sys.executable, "-m", "pytest", "-q", str(HERE / "test_bad_input.py"), "-k", "costs_itself_only"]
    for number, start in enumerate(range(0, count, MOST_IN_A_ROUND)):
        size = min(MOST_IN_A_ROUND, count - start)
        done = subprocess.run([*command, f"--first-seed={seed + number}", f"--bad-records={size}"], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
