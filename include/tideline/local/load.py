"""Load the new records of a pipeline once: `python -m tideline.local.load PIPELINE`. For trials.

It switches the pipeline's DAG on, starts a run as a person would in Airflow, and shows its tasks until it ends.
"""

import argparse
import sys

from tideline import settings
from tideline.airflow.api import AirflowApi
from tideline.errors import FatalError, TidelineError
from tideline.local import clients, run_progress


def main() -> int:
    """Run the command that the command line gives; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tideline.local.load", description=__doc__)
    parser.add_argument("pipeline")
    name = parser.parse_args().pipeline
    try:
        clients.connect()
        configured = settings.airflow()
        if configured is None:
            raise FatalError("TIDELINE_AIRFLOW_URL is not set", next_step="set it, or use the local stack: `make up`")
        with AirflowApi(*configured) as airflow:
            airflow.unpause(name)
            run_progress.succeed(airflow, name, airflow.trigger(name))
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
