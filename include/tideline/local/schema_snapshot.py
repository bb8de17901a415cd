"""The schema as readers want it, made of all migrations: `python -m tideline.local.schema_snapshot` writes `sql/schema.sql`.

For development only: nothing at run time reads the file, and a test keeps it equal to the migrations.
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
# Comments, session settings and a token that is another one each time.
_NOISE = re.compile(r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)\n", re.MULTILINE)


def snapshot(url: str) -> str:
    """The ledger's schema in the database at `url`, without what differs between two servers."""
    dump = ["--schema-only", "--no-owner", "--no-privileges", "--schema=tideline", "--schema=tideline_staging"]
    done = subprocess.run(
        [str(programs() / "pg_dump"), *dump], env=_environment(url), check=True, capture_output=True, text=True
    )
    return _HEADER + "\n" + re.sub(r"\n{3,}", "\n\n", _NOISE.sub("", done.stdout)).strip() + "\n"


def _environment(url: str) -> dict[str, str]:
    """The URL as variables of libpq: on the command line everybody on the machine could read the password."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    return {**os.environ, **{names[key]: str(value) for key, value in parse_dsn(url).items() if key in names}}


def main() -> None:
    """Migrate an empty database of a server of its own, and write down what came of it."""
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
