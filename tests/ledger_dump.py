"""A real dump of the ledger's database, and its restore."""

import os
import subprocess

from psycopg2.extensions import parse_dsn

from tideline_stack import postgres


def at_server(program: str, url: str, *arguments: str) -> None:
    """Run one of Postgres's clients on the ledger's database."""
    parts = parse_dsn(url)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    environment = os.environ | {names[key]: str(value) for key, value in parts.items() if key in names}
    subprocess.run([str(postgres.client(program)), *arguments], env=environment, check=True, capture_output=True)
