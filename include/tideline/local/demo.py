"""`make demo`: load the shipped pipelines through Airflow, let runs fail, load again, and compare the result with what was sent.

The stack must be up. Each part plays one pipeline, and returns a line for each difference that it finds.
"""

import os
import sys
from collections.abc import Callable, Mapping

from rich.console import Console

from tideline import settings
from tideline.airflow.api import AirflowApi
from tideline.errors import FatalError, TidelineError
from tideline.ledger.connection import Ledger
from tideline.local import demo_anomalies, demo_events, demo_lake, demo_loads, demo_offer_cache, demo_sessions
from tideline.local.demo_stage import Stage
from tideline.local.supervisor import State

PARTS: tuple[Callable[[Stage], list[str]], ...] = (
    demo_loads.play,
    demo_events.play,
    demo_lake.play,
    demo_offer_cache.play,
    demo_sessions.play,
    demo_anomalies.play,
)


def main() -> int:
    """Run the demo; return 0 only when every record is accounted for."""
    try:
        return demo()
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def demo() -> int:
    """Play each part.

    Returns:
        0 when every record is accounted for, else 1.

    Raises:
        FatalError: The stack is not up, or a step failed that must succeed.
    """
    state = State.read()
    if state is None or not state.ready:
        raise FatalError("the local stack is not up", next_step="run `make up`, or `make demo`, which starts it")
    environment = state.environment
    os.environ.update(environment)
    # The role that owns the output tables: the demo creates one that a pipeline reads, and renames it.
    url, variable = settings.url_of(settings.WRITER_URL)
    with Ledger(url, actor="demo", variable=variable) as ledger, _airflow(environment) as airflow:
        stage = Stage(ledger=ledger, airflow=airflow, environment=environment)
        problems = [problem for play in PARTS for problem in play(stage)]
    return _show(problems, environment)


def _airflow(environment: Mapping[str, str]) -> AirflowApi:
    return AirflowApi(
        environment["TIDELINE_AIRFLOW_URL"],
        environment["TIDELINE_AIRFLOW_USERNAME"],
        environment["TIDELINE_AIRFLOW_PASSWORD"],
    )


def _show(problems: list[str], environment: Mapping[str, str]) -> int:
    console = Console()
    console.line()
    for problem in problems:
        console.print(f"  [red]{problem}[/]")
    if not problems:
        console.print("  [green]Every record produced is accounted for, exactly once[/], in every table.")
    url, user = environment["TIDELINE_AIRFLOW_URL"], environment["TIDELINE_AIRFLOW_USERNAME"]
    console.print(f"  Airflow: {url}/dags/{demo_loads.DAG}", soft_wrap=True)
    console.print(
        f"  Log in as {user} with password {environment['TIDELINE_AIRFLOW_PASSWORD']}. `make down` stops the stack; its data stays.",
        soft_wrap=True,
    )
    console.print("  Try: .local/env/bin/tideline coverage impressions")
    console.print("       .local/env/bin/tideline state sessions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
