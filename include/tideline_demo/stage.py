"""What the demo and each part of the tour are given, and the few things that all of them do."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from psycopg2.sql import SQL
from rich.console import Console

from tideline import settings
from tideline.deployment.local_stack import StackState
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.statements import statement
from tideline_stack import program_environment, run_progress
from tideline_stack.airflow_user import AirflowUser

TIDELINE = ".local/env/bin/tideline"
"""The command line, as it is typed in the folder of the checkout."""
_SECONDS = 120.0
"""Time limit in seconds until Airflow starts a run that is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStage:
    """The running stack, as the demo and the parts of the tour use it."""

    ledger: Ledger
    airflow: AirflowUser
    environment: Mapping[str, str]
    """The variables of the stack's clients."""
    begin: float = field(default_factory=time.monotonic)
    """When it was opened, in seconds of the monotonic clock."""

    @property
    def bootstrap(self) -> str:
        """Return the address of the broker."""
        return self.environment["TIDELINE_KAFKA"]

    def say_login(self) -> None:
        """Print where the page is, and how to log in."""
        user, password = (self.environment[name] for name in ("TIDELINE_AIRFLOW_USERNAME", "TIDELINE_AIRFLOW_PASSWORD"))
        print(f"  The page  {self.page('')}   user {user}   password {password}")

    def judge(self, problems: list[str]) -> list[str]:
        """Print the differences that were found, or that there are none, and how long it took. Return the differences."""
        console = Console(soft_wrap=True, highlight=False)
        console.line()
        for problem in problems:
            console.print(f"  [red]{problem}[/]")
        if not problems:
            console.print("  [green]Every record produced is accounted for, exactly once.[/]")
        console.print(f"  It took {time.monotonic() - self.begin:.0f} s.")
        return problems

    def look_at(self, what: str) -> None:
        """Print where the step that was just shown can be seen: an address, or a command to type."""
        print(f"  Look at  {what}")

    def page(self, *parts: str) -> str:
        """Return the address of a page of Tideline in Airflow."""
        return "/".join(
            [self.environment["TIDELINE_AIRFLOW_URL"], "tideline", *(quote(part, safe="") for part in parts)]
        )

    def load(self, dag_id: str) -> str:
        """Start a run of a DAG, and show it until it has succeeded. Return its id."""
        self.switch_on(dag_id)
        run_id = self.airflow.trigger(dag_id)
        run_progress.succeed(self.airflow, dag_id, run_id)
        return run_id

    def switch_on(self, dag_id: str) -> None:
        """Unpause a DAG, and show the run that Airflow starts then, for the newest interval. Do nothing if the DAG is on.

        That run loads records up to the end of its interval. Beside it, the run that is shown next would be given some of
        the records only, and wait until this one has written the others.
        """
        if _is_past(self.airflow.unpause(dag_id)["next_dagrun_run_after"]):
            print(f"  The DAG {dag_id} is switched on. Airflow starts the run that is due.")
            run_progress.succeed(self.airflow, dag_id, self._scheduled_run(dag_id))

    def _scheduled_run(self, dag_id: str) -> str:
        """Wait until Airflow has started the run that is due, and return its id."""
        self.airflow.wait(
            lambda: not _is_past(self.airflow.call("GET", f"dags/{dag_id}")["next_dagrun_run_after"]),
            f"the scheduled run of {dag_id} to begin",
            seconds=_SECONDS,
        )
        newest = self.airflow.call("GET", f"dags/{dag_id}/dagRuns?run_type=scheduled&order_by=-id&limit=1")
        return str(newest["dag_runs"][0]["dag_run_id"])

    def look(self, name: str, **parameters: Any) -> list[Any]:
        """Return the rows of one of the demo's queries."""
        return look(self.ledger, name, **parameters)

    def execute(self, name: str) -> None:
        """Run one of the demo's statements."""
        changed(self.ledger, name)

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


def _is_past(due: str | None) -> bool:
    """Return whether a time of Airflow's has come; None is no time."""
    return due is not None and datetime.fromisoformat(due) <= datetime.now(UTC)


@contextmanager
def opened() -> Iterator[DemoStage]:
    """Connect to the stack of this checkout, which must be up.

    Raises:
        FatalError: It is not up.
    """
    state = StackState.read()
    if state is None or not state.ready:
        raise FatalError("the local stack is not up", next_step="run `make up`")
    environment = state.environment
    os.environ.update(environment)
    # The role that owns the output tables: the demo creates one that a pipeline reads, and renames it.
    url, variable = settings.url_of(settings.WRITER_URL)
    login = (
        environment[name] for name in ("TIDELINE_AIRFLOW_URL", "TIDELINE_AIRFLOW_USERNAME", "TIDELINE_AIRFLOW_PASSWORD")
    )
    with Ledger(url, actor="demo", variable=variable) as ledger, AirflowUser(*login) as airflow:
        yield DemoStage(ledger=ledger, airflow=airflow, environment=environment)


def changed(session: Ledger, name: str, **parameters: Any) -> None:
    """Run one of the demo's statements."""
    with session.transaction():
        session.run_sql(SQL(statement("tideline_demo", name)), parameters)


def look(ledger: Ledger, name: str, **parameters: Any) -> list[Any]:
    """Return the rows of one of the demo's queries."""
    with ledger.transaction():
        return ledger.rows_of(SQL(statement("tideline_demo", name)), parameters)
