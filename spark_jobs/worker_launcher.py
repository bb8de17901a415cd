"""The program that Spark starts where tasks run: it becomes `worker_daemon`, without the URLs of the ledger in its environment.

Of a local master the executor is a child of the driver, and has its environment. Removing a variable is not enough: the system shows the environment
with which a program was started, in /proc, for as long as the process lives, and to processes that are forked from it. So another program takes its
place. It has the same pid, and the same streams to Spark.
"""

import os
import sys

from tideline import settings

if __name__ == "__main__":
    settings.forget_urls()  # tasks bring the one that they need
    os.execv(sys.executable, [sys.executable, "-m", "tideline.spark_jobs.worker_daemon", *sys.argv[1:]])  # noqa: S606 - no shell
