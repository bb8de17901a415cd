"""The process of which Spark's Python workers are copies. It has loaded what tasks need, so that no worker spends half a second on imports.

Spark starts it as the setting `spark.python.daemon.module` names it, once for each executor.
"""

import spark_jobs.unpacked_pyspark

# isort: split

import pyspark.worker  # noqa: F401 - for the copies
from pyspark.daemon import manager

import spark_jobs.sinks.staging  # noqa: F401 - for the copies

if __name__ == "__main__":
    manager()
