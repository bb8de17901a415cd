"""Open `psql` on the ledger's database, as the role that owns the output tables: `python -m tideline_stack.psql [OPTION...]`. For trials."""

import os
import sys

from psycopg2.extensions import parse_dsn

from tideline import settings
from tideline.deployment import local_stack
from tideline.errors import TidelineError
from tideline_stack import postgres

_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
}


def main() -> None:
    """Replace this process by psql. The login travels in variables: a command line is visible to other users."""
    try:
        local_stack.connect()
        url, _ = settings.url_of(settings.WRITER_URL)
        login = {_VARIABLES[key]: value for key, value in parse_dsn(url).items() if key in _VARIABLES}
        program = postgres.client("psql")
    except TidelineError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    os.execve(program, ["psql", *sys.argv[1:]], {**os.environ, **login})  # noqa: S606 - no shell: the options are not ours


if __name__ == "__main__":
    main()
