"""Let the scheduler of the tests import what every task imports, before it forks the processes that run tasks.

Airflow imports this file in each of its programs. Without it each task spends half a second of processor time on the same imports.
"""

import sys

if "scheduler" in sys.argv:
    import tideline.airflow.all_dags  # noqa: F401 - imported for the processes that are forked from this one
