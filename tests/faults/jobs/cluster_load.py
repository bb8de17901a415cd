"""Strike a load that runs on a Spark cluster, and compare what it has loaded. Each blow returns whether it has hit something."""

from collections.abc import Callable, Sequence

import psutil

from faults.checker import watch
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S
from faults.jobs.struck_load import StruckLoad
from servers.spark_cluster import SparkCluster

REDRIVEN = "SELECT state FROM tideline.batch WHERE pipeline = %s AND kind = 'redrive'"


def busy(cluster: SparkCluster) -> list[psutil.Process]:
    """Return an executor of each worker, while all of them run tasks; else nothing."""
    found = [cluster.busy_executors(name) for name in cluster.workers]
    return [executors[0] for executors in found] if all(found) else []


def kill_executor(cluster: SparkCluster) -> bool:
    """Kill an executor while both workers run tasks, so that the load goes on at the other one."""
    for executor in busy(cluster)[:1]:
        executor.kill()
        return True
    return False


def played(load: StruckLoad, blows: Sequence[Callable[[int], bool]]) -> None:
    """Strike a load with all of these, finish it, and compare each record with the output and the ledger."""
    try:
        load.rounds.start()
        with watch(load.servers.url, load.name, load.output.watched, every=0.5) as watched:
            for blow in blows:
                load.strike(lambda _, batch_id: blow(batch_id))  # noqa: B023 - called before the next turn
            load.rounds.finish(2 * TASK_S)
            if load.output.sink is not Sink.FOLDED:  # what was folded is never decoded again
                load.rounds.redrive()
                # As many batches as there are rejects for: the load goes on, with more records, until all have struck.
                assert set(load.witness.rows(REDRIVEN, load.name)) == {("advanced",)}
        broken, n_records = load.verdict()
    finally:
        load.stop()
    found = [*watched.violations, *broken]
    assert not found, "\n".join(map(str, found))  # pytest shows values only for what is asserted in modules of tests
    assert n_records >= load.n_records
