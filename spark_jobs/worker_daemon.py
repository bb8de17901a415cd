"""The process that Spark's Python workers are forked from. It imports what tasks need, so that no worker spends half a second on imports.

Spark starts it once for each executor, by `worker_launcher`, which the setting `spark.python.daemon.module` names.
"""

import tideline.spark_jobs.unpacked_pyspark

# isort: split

import gc

import pyspark.worker  # noqa: F401 - for the forked workers
from pyspark.daemon import manager

import tideline.sinks.postgres.staging
import tideline.spark_jobs.tasks  # noqa: F401 - for the forked workers

_NEW_OBJECTS = 50_000
"""How many objects are created before Python looks for cycles among them. A record of a stateful pipeline is some twenty
objects, and with the default of 700 a fold took a sixth longer."""


if __name__ == "__main__":
    # Imported modules never become garbage: without this each search, and Spark starts one after every task, would visit their 100,000 objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    manager()
