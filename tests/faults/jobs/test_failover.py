"""Load while the Postgres that holds the ledger is killed and its standby takes over: while records are staged, while a batch is published,
and while its COMMIT waits for the standby.

The standby is synchronous, so nothing is lost. `make test-cluster` plays all sinks.
"""

import time
from collections.abc import Iterator

import pytest

from faults.checker import watch
from faults.jobs.failover_servers import FailoverServers
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S
from faults.jobs.struck_load import StruckLoad
from tideline.errors import RetryableError

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = ANY (%s)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sink" in metafunc.fixturenames:
        metafunc.parametrize("sink", list(Sink) if metafunc.config.getoption("--soak") else [Sink.APPEND])


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[FailoverServers]:
    with FailoverServers(tmp_path_factory.mktemp("failover"), synchronous=True).running() as running:
        yield running


def while_it_stages(play: StruckLoad, _: int) -> bool:
    play.servers.fail_over()
    return True


def before_it_publishes(play: StruckLoad, batch_id: int) -> bool:
    """Strike when the transaction that publishes has begun."""
    job = play.rounds.current
    with play.witness.before_publish(batch_id, job.alive) as waiting:
        if waiting:
            play.servers.fail_over()
        return bool(waiting)


def while_its_commit_waits(play: StruckLoad, batch_id: int) -> bool:
    """Strike when the primary has committed, and the standby has not said that it has it too."""
    job = play.rounds.current
    with play.witness.before_publish(batch_id, job.alive) as waiting:
        if not waiting:
            return False
        play.servers.freeze_standby()
    deadline = time.monotonic() + TASK_S
    while not play.witness.rows(WAITING, waiting):
        assert time.monotonic() < deadline, "no COMMIT waits for the standby"
        time.sleep(0.01)
    play.servers.fail_over()
    return True


def test_a_failover_to_a_synchronous_standby_loses_and_doubles_nothing(servers, sink, tmp_path, monkeypatch):
    for name, value in servers.variables().items():
        monkeypatch.setenv(name, value)
    play = StruckLoad("failover", servers, sink, tmp_path)
    try:
        play.rounds.start()
        with watch(servers.url, play.name, play.output.watched, every=0.5) as watched:
            for blow in (while_it_stages, before_it_publishes, while_its_commit_waits):
                play.strike(blow)
            play.rounds.finish(2 * TASK_S)
        broken, n_records = play.verdict()
    finally:
        play.stop()
    assert [*watched.violations, *broken] == []
    assert n_records >= play.n_records
    assert play.rounds.codes[RetryableError.exit_code] >= 2, "the loads did not notice that the server was another one"
