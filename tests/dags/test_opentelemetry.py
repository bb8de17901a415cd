"""The counters and timers of the tasks reach a collector of OpenTelemetry where Airflow is configured for one."""

import os
import subprocess
import sys

from otlp_collector import collecting, tags_of

TASK = """
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability import stats as airflows
airflows.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as Airflow's task runner does
from tideline.airflow import stats
with stats.timed("plan", "orders"):
    stats.planned("orders", 3)
"""


def test_a_collector_gets_the_counts_and_times_of_a_task_with_its_pipeline(tmp_path):
    with collecting() as collector:
        environment = {**os.environ, **collector.settings, "AIRFLOW_HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-c", TASK], env=environment, check=True, timeout=60)
    found = collector.metrics()
    [planned] = found["airflow.tideline.batches.planned"].sum.data_points
    assert (planned.as_int or planned.as_double) == 3
    assert tags_of(planned) == {"pipeline": "orders"}
    [timed] = found["airflow.tideline.plan.duration"].exponential_histogram.data_points
    assert (timed.count, timed.sum > 0) == (1, True)
    assert tags_of(timed) == {"pipeline": "orders", "outcome": "success"}
