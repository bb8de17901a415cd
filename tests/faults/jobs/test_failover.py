"""Load while the Postgres that holds the ledger is killed and its standby takes over: while records are staged, while a batch is published,
and while its COMMIT waits for the standby.

With a synchronous standby nothing is lost. With an asynchronous one the newest batches are: the ledger goes back.
"""

import os
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest
from confluent_kafka.admin import AdminClient

from faults.checker import watch
from faults.jobs import order_producer, orders, read_back
from faults.jobs.failover_servers import FailoverServers
from faults.jobs.job_verdict import doctors, verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness
from given_topics import topics
from tideline.errors import NeedsOperatorError, RetryableError

RECORDS, PARTITIONS = 6_000, 3
LIMITS = {"batch_records": 2000, "run_batches": 3, "split_records": 500}
TRANSFORMS = {Sink.FOLDED: "processor"}
ROWS = "SELECT count(*) FROM {}"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = ANY (%s)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sink" in metafunc.fixturenames:
        metafunc.parametrize("sink", list(Sink) if metafunc.config.getoption("--soak") else [Sink.APPEND])


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[FailoverServers]:
    with FailoverServers(tmp_path_factory.mktemp("failover"), synchronous=True).running() as running:
        yield running


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory, request) -> Iterator[FailoverServers]:
    """Yield servers whose standby may lack the newest transactions."""
    if not request.config.getoption("--soak"):
        pytest.skip("by `make test-cluster`")
    with FailoverServers(tmp_path_factory.mktemp("asynchronous"), synchronous=False).running() as running:
        yield running


class Play:
    """A pipeline that is loaded while its Postgres fails over."""

    def __init__(self, servers: FailoverServers, sink: Sink, folder) -> None:
        self.servers = servers
        self.name = f"failover_{sink.name.lower()}_{os.getpid()}"
        self.output = Output(pipeline=self.name, sink=sink, lakes=servers.folder / "lakes")
        topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), self.name, partitions=PARTITIONS)
        read_back.create_topics(self.output, servers.bootstrap)
        declared = servers.pipelines / self.name
        transform = TRANSFORMS.get(sink, "records")
        orders.declare(declared, self.name, self.output, transform=transform, limits=LIMITS)
        self.strikes_left = 3
        self.fill()
        self.witness = Witness(servers.url)
        variables = servers.variables()
        self.rounds = Rounds(self.name, variables=variables, logs=folder, master="local[2]", refill=self._refill)

    def fill(self) -> None:
        sent = orders.records(Random(self.strikes_left), RECORDS)
        order_producer.fill(self.servers.bootstrap, self.name, sent, PARTITIONS)

    def _refill(self) -> bool:
        if self.strikes_left:
            self.fill()
        return bool(self.strikes_left)

    def strike(self, blow: Callable[["Play", int], bool]) -> None:
        """Strike a batch that is being staged, once it is there."""
        deadline = time.monotonic() + TASK_S
        while True:
            self.rounds.check()
            assert time.monotonic() < deadline, "nothing was found to strike"
            standing = self.witness.standing(self.name)
            if standing and standing.moment in (Moment.READING, Moment.STAGING) and blow(self, standing.batch_id):
                break
            time.sleep(0.02)
        self.strikes_left -= 1


def while_it_stages(play: Play, _: int) -> bool:
    play.servers.fail_over()
    return True


def before_it_publishes(play: Play, batch_id: int) -> bool:
    """Strike when the transaction that publishes has begun."""
    job = play.rounds.current
    with play.witness.before_publish(batch_id, job.alive) as waiting:
        if waiting:
            play.servers.fail_over()
        return bool(waiting)


def while_its_commit_waits(play: Play, batch_id: int) -> bool:
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
    play = Play(servers, sink, tmp_path)
    try:
        play.rounds.start()
        with watch(servers.url, play.name, play.output.watched, every=0.5) as watched:
            for blow in (while_it_stages, before_it_publishes, while_its_commit_waits):
                play.strike(blow)
            play.rounds.finish(2 * TASK_S)
        broken, n_records = verdict(servers.url, servers.bootstrap, play.output)
    finally:
        play.rounds.stop()
        play.witness.close()
    assert [*watched.violations, *broken] == []
    assert n_records >= RECORDS
    assert play.rounds.codes[RetryableError.exit_code] >= 2, "the loads did not notice that the server was another one"


def one_run(play: Play, run_id: str) -> int:
    """Load what there is in one run. Return the exit code of its task `write`."""
    return play.rounds.submit(run_id, play.rounds.plan(run_id), 1).wait(TASK_S)


def test_batches_that_an_asynchronous_standby_has_lost_are_loaded_again_into_a_table_which_has_lost_them_too(
    asynchronous, tmp_path, monkeypatch
):
    for name, value in asynchronous.variables().items():
        monkeypatch.setenv(name, value)
    play = Play(asynchronous, Sink.APPEND, tmp_path)
    try:
        asynchronous.cut_standby()
        assert one_run(play, "lost") == 0
        assert play.witness.rows(ROWS.format(play.output.table)) != [(0,)]
        asynchronous.fail_over()
        assert play.witness.rows("SELECT to_regclass(%s)", play.output.table) == [(None,)]
        play.strikes_left = 0
        play.rounds.start()
        play.rounds.finish(TASK_S)
        broken, n_records = verdict(asynchronous.url, asynchronous.bootstrap, play.output)
    finally:
        play.rounds.stop()
        play.witness.close()
    assert (broken, n_records) == ([], RECORDS)


@pytest.mark.parametrize("outside", [Sink.TOPIC, Sink.LAKE])
def test_commits_that_an_asynchronous_standby_has_lost_are_noticed_where_the_output_is_another_system(
    asynchronous, outside, tmp_path, monkeypatch
):
    """A batch whose plan the standby has is not loaded twice. One whose plan it has lost too is planned anew: only `doctor` names it."""
    for name, value in asynchronous.variables().items():
        monkeypatch.setenv(name, value)
    play = Play(asynchronous, outside, tmp_path)
    try:
        batch_ids = play.rounds.plan("planned")
        asynchronous.cut_standby()
        assert play.rounds.submit("planned", batch_ids, 1).wait(TASK_S) == 0
        asynchronous.fail_over()
        job = play.rounds.submit("planned", batch_ids, 2)
        assert job.wait(TASK_S) == NeedsOperatorError.exit_code
        assert "which this ledger does not know" in job.log.read_text()
        assert play.rounds.plan("later") == batch_ids, "more was planned than what must be decided about"
        found = doctors(asynchronous.url, play.rounds.pipeline)
    finally:
        play.rounds.stop()
        play.witness.close()
    assert ["holds rows of batches or attempts that the ledger does not know" in one for one in found] == [True]
