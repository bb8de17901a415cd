"""The whole schema in one file for readers: `python -m tideline.local.schema_snapshot` writes `sql/schema.sql` from all migrations.

For development only: the file is not used at run time, and a test keeps it equal to the migrations.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from psycopg2.extensions import parse_dsn

from tideline import ledger
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local.postgres import Postgres, programs

PATH = Path(ledger.__file__).parent / "sql" / "schema.sql"
_HEADER = "-- Made of the migrations by `python -m tideline.local.schema_snapshot`; for reading, never run.\n"
# Comments, session settings, and the lines with a token that is different in each dump.
_NOISE = re.compile(r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)\n", re.MULTILINE)


def snapshot(url: str) -> str:
    """Return the ledger's schema in the database at `url`, without the lines that differ between two dumps."""
    dump = ["--schema-only", "--no-owner", "--no-privileges", "--schema=tideline", "--schema=tideline_staging"]
    done = subprocess.run(
        [str(programs() / "pg_dump"), *dump], env=_environment(url), check=True, capture_output=True, text=True
    )
    return _HEADER + "\n" + re.sub(r"\n{3,}", "\n\n", _NOISE.sub("", done.stdout)).strip() + "\n"


def _environment(url: str) -> dict[str, str]:
    """Return the URL as variables of libpq: on the command line every user of the machine could read the password."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    return {**os.environ, **{names[key]: str(value) for key, value in parse_dsn(url).items() if key in names}}


def main() -> None:
    """Migrate an empty database on a temporary server, and write its schema to the file."""
    with tempfile.TemporaryDirectory() as folder:
        server = Postgres(Path(folder) / "postgres")
        server.start()
        try:
            with Ledger(server.url("postgres"), actor="snapshot") as session:
                migrate(session)
            PATH.write_text(snapshot(server.url("postgres")), encoding="utf-8")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
