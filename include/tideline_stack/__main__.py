"""Command line of this checkout's local stack: `python -m tideline_stack up | down | status`. Make calls it too."""

import argparse
import sys

from tideline.deployment.local_stack import StackState
from tideline.errors import TidelineError
from tideline_stack import supervisor, up
from tideline_stack.processes import recorded
from tideline_stack.supervisor import RUN

_NOT_UP = 3  # the exit code of `systemctl status` for a unit that is not active


def main() -> int:
    """Run the command that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tideline_stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status", "supervise"))
    parser.add_argument("--unpaused", action="store_true", help="new DAGs are created unpaused")
    given = parser.parse_args()
    try:
        if given.command == "up":
            up.up(unpaused=given.unpaused)
            return 0
        if given.command == "supervise":
            supervisor.supervise(unpaused=given.unpaused)
            return 0
        return down() if given.command == "down" else status()
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def down() -> int:
    """Stop the stack; do nothing when it is not running."""
    with supervisor.show_step("Stop Airflow, registry, Kafka, Postgres"):
        ended = supervisor.stop()
    print("The local stack is down; its data stays." if ended else "The local stack was not running.")
    return 0


def status() -> int:
    """Print the state of each part; return 0 only when all of them run."""
    state = StackState.read()
    if state is None or not state.ready:
        print("The local stack is not up. Start it with `make up`.")
        return _NOT_UP
    alive = {file: identity.process() is not None for file, identity in recorded(RUN).items()}
    for file, lives in sorted(alive.items()):
        print(f"  {file.stem:<16} {'running' if lives else 'ENDED; read ' + str(file.with_suffix('.log'))}")
    up.show_places(state)
    return 0 if all(alive.values()) else _NOT_UP


if __name__ == "__main__":
    sys.exit(main())
