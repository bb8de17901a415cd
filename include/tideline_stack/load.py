"""Load the new records of a pipeline once: `python -m tideline_stack.load PIPELINE`. For trials.

It switches the pipeline's DAG on, starts a run as a person would in Airflow, and shows its tasks until it ends.
"""

import argparse
import sys

from tideline import settings
from tideline.deployment import local_stack
from tideline.errors import FatalError, TidelineError
from tideline_stack import run_progress
from tideline_stack.airflow_user import AirflowUser


def main() -> int:
    """Run the command that the command line gives; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tideline_stack.load", description=__doc__)
    parser.add_argument("pipeline")
    name = parser.parse_args().pipeline
    try:
        local_stack.connect()
        configured = settings.airflow()
        if configured is None:
            raise FatalError("TIDELINE_AIRFLOW_URL is not set", next_step="set it, or use the local stack: `make up`")
        with AirflowUser(*configured) as airflow:
            airflow.unpause(name)
            run_progress.succeed(airflow, name, airflow.trigger(name))
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
