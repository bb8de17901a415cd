"""Airflow's operator in front of a real Spark cluster: a load of each sink, by the connection and the properties file alone."""

import json
import os
from urllib.parse import urlsplit

import pytest

from faults.jobs.operator_tries import RECORDS, Load
from faults.jobs.order_outputs import Sink
from servers.spark_cluster import SparkCluster
from tideline_stack import program_environment


@pytest.fixture(scope="module")
def cluster(crashing, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, SparkCluster(tmp_path_factory.mktemp("cluster")).running() as running:
        address = urlsplit(running.url)
        connection = {"conn_type": "spark", "host": f"spark://{address.hostname}", "port": address.port}
        variables = {
            **crashing.variables(),
            "TIDELINE_SPARK_PROPERTIES": str(running.properties()),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "PATH": f"{program_environment.BIN}:{os.environ['PATH']}",
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        yield running


@pytest.mark.parametrize("sink", list(Sink))
def test_the_operator_loads_each_record_once_on_a_cluster_that_the_connection_names(crashing, cluster, sink):
    load = Load(f"operated_{sink.name.lower()}_{os.getpid()}", crashing, sink)
    try:
        running = load.start_try(1)
        assert running.ended() is None
        assert f"--master {cluster.url} " in " ".join(running.spark_submit.args)
        assert load.verdict() == ([], RECORDS)
    finally:
        load.close()
