"""Load on a real Spark cluster whose executors are cut off from their servers or the driver, or come and go, or had files that others still need."""

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from faults.jobs.cluster_load import busy, played
from faults.jobs.order_outputs import Sink
from faults.jobs.proxied_servers import ProxiedServers
from faults.jobs.rounds import TASK_S
from faults.jobs.struck_load import StruckLoad
from given_topics import topics
from servers.cutting_proxy import CuttingProxy
from servers.spark_cluster import SparkCluster, ports_of

N_PUBLISHED = "SELECT count(*) FROM tideline.event WHERE pipeline = %s AND action = 'publish'"
CUT_S = 2
"""Seconds for which a server takes no connections, after those of executors were cut."""
COMES_AND_GOES = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.executor.cores": "1",
}
SHARES = 24_000
"""The records of a batch of which each of two cores folds two shares, one after the other."""
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid)) AND application_name = 'tideline'"""
"""Sessions of the job. Those of the checker, which looks at the states too, wait as well."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")).running() as running:
        yield running


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedServers]:
    with ProxiedServers(tmp_path_factory.mktemp("proxied")).running() as running:
        yield running


def cut_off_from(proxy: CuttingProxy, cluster: SparkCluster) -> bool:
    """Cut the connections of all executors with a server, and let it take no new ones for a while."""
    executors = busy(cluster)
    cut = proxy.ports() & {port for executor in executors for port in ports_of(executor)}
    if not cut:
        return False
    proxy.refuse()
    for port in cut:
        proxy.cut(port)
    time.sleep(CUT_S)
    proxy.accept_again()
    return True


def freeze_executor(cluster: SparkCluster, load: StruckLoad) -> bool:
    """Cut an executor off from everything until its tasks have run elsewhere and were published, and let it go on then.

    It holds its sessions with the ledger and the half of a COPY meanwhile, as a machine does that a switch has cut off.
    """
    executors = busy(cluster)
    if not executors:
        return False
    frozen = [executors[0], *executors[0].children(recursive=True)]
    published = load.witness.rows(N_PUBLISHED, load.name)
    try:
        for process in frozen:
            process.suspend()
        deadline = time.monotonic() + TASK_S
        while load.witness.rows(N_PUBLISHED, load.name) == published:
            load.rounds.check()
            assert time.monotonic() < deadline, "the tasks of an executor that is cut off did not run elsewhere"
            time.sleep(0.1)
    finally:
        for process in reversed(frozen):
            process.resume()
    return True


def let_executors_go(cluster: SparkCluster, load: StruckLoad, batch_id: int) -> bool:
    """Keep a batch from being published until Spark has ended all executors, which have nothing to do meanwhile."""
    job = load.rounds.current
    with load.witness.before_publish(batch_id, lambda: job is not None and job.alive()) as waiting:
        if not waiting:
            return False
        topics.until(lambda: not any(map(cluster.busy_executors, cluster.workers)), seconds=TASK_S)
    return True


def lose_what_was_shuffled(cluster: SparkCluster, load: StruckLoad) -> bool:
    """Kill all executors while tasks of the second stage wait for states, so that others of that stage lack the files of the first one."""
    with closing(psycopg2.connect(load.servers.url)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE tideline.state")
        waiting = (WAITING, holder.info.backend_pid)
        topics.until(lambda: load.witness.rows(*waiting) > [(0,)], seconds=TASK_S)
        # One worker may not run anything yet: then the other one has all the files.
        executors = [executor for name in cluster.workers for executor in cluster.busy_executors(name)]
        for executor in executors:
            executor.kill()
    return bool(executors)


@pytest.mark.parametrize("sink", Sink)
def test_executors_that_are_cut_off_from_postgres_or_kafka_or_the_driver_lose_and_double_nothing(
    proxies, cluster, sink, tmp_path, monkeypatch
):
    for name, value in proxies.variables().items():
        monkeypatch.setenv(name, value)
    variables = proxies.variables() | {"TIDELINE_SPARK_PROPERTIES": str(cluster.properties())}
    load = StruckLoad("cut", proxies.servers, sink, tmp_path, master=cluster.url, variables=variables)
    played(
        load,
        [
            lambda _: cut_off_from(proxies.postgres, cluster),
            lambda _: cut_off_from(proxies.kafka, cluster),
            lambda _: freeze_executor(cluster, load),
        ],
    )


@pytest.mark.parametrize("sink", Sink)
def test_executors_that_come_and_go_by_dynamic_allocation_lose_and_double_nothing(
    crashing, cluster, sink, tmp_path, monkeypatch
):
    for name, value in crashing.variables().items():
        monkeypatch.setenv(name, value)
    variables = {"TIDELINE_SPARK_PROPERTIES": str(cluster.properties(COMES_AND_GOES))}
    load = StruckLoad("comes", crashing, sink, tmp_path, master=cluster.url, variables=variables)
    played(load, [lambda batch_id: let_executors_go(cluster, load, batch_id)] * 3)


def test_a_stage_that_has_staged_its_counts_and_is_computed_again_counts_once(crashing, cluster, tmp_path, monkeypatch):
    for name, value in crashing.variables().items():
        monkeypatch.setenv(name, value)
    variables = {"TIDELINE_SPARK_PROPERTIES": str(cluster.properties())}
    load = StruckLoad(
        "again", crashing, Sink.FOLDED, tmp_path, n_strikes=1, batch=SHARES, master=cluster.url, variables=variables
    )
    played(load, [lambda _: lose_what_was_shuffled(cluster, load)])
    assert "FetchFailed" in "".join(job.log.read_text() for job in load.rounds.jobs)
