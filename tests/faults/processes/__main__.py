"""Writes the matrix's table:

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.processes --write-table
"""

import argparse
import sys
import tempfile
from pathlib import Path

from faults.processes import table
from faults.processes.points import points
from faults.processes.striking import recorded
from faults.processes.verbs import VERBS
from faults.processes.workers import Workers


def main() -> int:
    """1 if a schedule fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write-table", action="store_true", help="record the steps of all verbs into docs/reliability.md"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workers(Path(folder)) as workers:
        if asked.write_table:
            found = {verb: workers.submit(recorded, verb) for verb in VERBS}
            table.write(points({verb: future.result() for verb, future in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
