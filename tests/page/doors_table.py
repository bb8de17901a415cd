"""Write the table of docs/security.md from what requests to a real Airflow have found:

PYTHONPATH=tests:tests/integration:tests/page .local/env/bin/python tests/page/doors_table.py
"""

import sys
import tempfile
from pathlib import Path

import conditions
import doors
import website
from tideline.settings import PROJECT
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres

PAGE = PROJECT / "docs" / "security.md"
COMMAND = "PYTHONPATH=tests:tests/integration:tests/page .local/env/bin/python tests/page/doors_table.py"
_BEGIN, _END = "<!-- doors -->\n", "<!-- /doors -->\n"


def shown() -> str:
    """Return the table that the page shows now."""
    return PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]


def write(table: str) -> None:
    """Write the table between the markers; the rest of the page stays."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}{table}{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def main() -> int:
    """Write the table."""
    with tempfile.TemporaryDirectory(dir=PROJECT / ".local") as folder:
        postgres = Postgres(Path(folder) / "postgres")
        broker = LocalBroker(Path(folder) / "kafka", PROJECT / ".local" / "jars" / "kafka")
        try:
            postgres.start()
            broker.start()
            with website.running(Path(folder), postgres, broker, fill=conditions.declare_all) as site:
                write(doors.table(site, doors.knock(site)))
        finally:
            broker.stop()
            postgres.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
