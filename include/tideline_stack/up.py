"""Starts the local stack unless it is up, and prints its addresses. For `make up`, the demo and the tour."""

import time

from tideline.deployment.local_stack import StackState
from tideline_stack import supervisor
from tideline_stack.supervisor import RUN


def up(*, unpaused: bool = False) -> None:
    """Start the stack unless it is up, and print its addresses."""
    state = StackState.read()
    if state is None:
        begin = time.monotonic()
        state = supervisor.launch(unpaused=unpaused)
        print(f"The local stack is up after {time.monotonic() - begin:.0f} s.")
    else:
        print(
            "The local stack is up already." if state.ready else "The local stack is being started by another command."
        )
    show_places(state)


def show_places(state: StackState) -> None:
    """Print the addresses of a stack that is ready."""
    if not state.ready:
        return
    found = state.environment
    print(f"  Airflow   {found['TIDELINE_AIRFLOW_URL']}   user {found['TIDELINE_AIRFLOW_USERNAME']}", end="")
    print(f"   password {found['TIDELINE_AIRFLOW_PASSWORD']}")
    print(f"  Kafka     {found['TIDELINE_KAFKA']}")
    print(f"  Registry  {found['TIDELINE_REGISTRY']}   (schemas: Apicurio, with the API of Confluent's)")
    print(f"  Postgres  {found['TIDELINE_LEDGER_URL'].rpartition('@')[2]}   (passwords: {RUN}/postgres/roles)")
    print("  Try       .local/env/bin/tideline doctor     (checks everything)")
