"""The process that Spark's Python workers are forked from. It imports what tasks need, so that no worker spends half a second on imports.

Spark starts it once for each executor: the setting `spark.python.daemon.module` names this module.
"""

import spark_jobs.unpacked_pyspark

# isort: split

import pyspark.worker  # noqa: F401 - for the forked workers
from pyspark.daemon import manager

import spark_jobs.sinks.postgres.staging
import spark_jobs.tasks  # noqa: F401 - for the forked workers

if __name__ == "__main__":
    manager()
