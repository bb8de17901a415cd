"""What each part of the demo is given, and the few things that all parts do."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from psycopg2.sql import SQL

from tideline.airflow.api import AirflowApi
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger, statement
from tideline.local import program_environment, run_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The running stack, as a part of the demo uses it."""

    ledger: Ledger
    airflow: AirflowApi
    environment: Mapping[str, str]
    """The variables of the stack's clients."""

    @property
    def bootstrap(self) -> str:
        """Return the address of the broker."""
        return self.environment["TIDELINE_KAFKA"]

    def load(self, dag_id: str) -> str:
        """Start a run of a DAG, and show it until it has succeeded. Return its id."""
        self.airflow.unpause(dag_id)
        run_id = self.airflow.trigger(dag_id)
        run_progress.succeed(self.airflow, dag_id, run_id)
        return run_id

    def look(self, name: str, **parameters: Any) -> list[Any]:
        """Return the rows of one of the demo's queries."""
        return look(self.ledger, name, **parameters)

    def execute(self, name: str) -> None:
        """Run one of the demo's statements."""
        with self.ledger.transaction():
            self.ledger.run_sql(SQL(statement("tideline.local", f"sql/{name}.sql")), {})

    def tideline(self, *arguments: str) -> Any:
        """Print a `tideline` command as an operator would type it, run it with `--json` and return the parsed output.

        Raises:
            FatalError: It failed.
        """
        print("  $ tideline " + " ".join(f"'{word}'" if " " in word else word for word in arguments))
        done = subprocess.run(
            [str(program_environment.BIN / "tideline"), *arguments, "--json"],
            env=dict(self.environment),
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise FatalError(f"the command failed: {done.stderr.strip()}", next_step="run it by hand")
        return json.loads(done.stdout)

    def follow(self, dag_id: str, said: Mapping[str, Any]) -> None:
        """Show the runs that a command has started until they have succeeded."""
        for run in said["runs"]:
            run_progress.succeed(self.airflow, dag_id, unquote(run["url"].rpartition("/")[2]))


def look(ledger: Ledger, name: str, **parameters: Any) -> list[Any]:
    """Return the rows of one of the demo's queries."""
    with ledger.transaction():
        return ledger.rows_of(SQL(statement("tideline.local", f"sql/{name}.sql")), parameters)
