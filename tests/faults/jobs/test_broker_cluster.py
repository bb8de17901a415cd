"""Load from, and into, topics of three brokers while each of them is killed in turn; and after a replica was elected that lacks records.

By `make test-cluster`.
"""

import os
import time
from collections.abc import Iterator
from random import Random

import pytest
from confluent_kafka.admin import NewTopic

from faults.checker import watch
from faults.jobs import order_producer, orders, read_back
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness
from given_ledger.decisions import REPLACED
from given_topics import topics
from given_topics.topics import until
from servers.kafka_cluster import KafkaCluster
from tideline.errors import NeedsOperatorError

RECORDS, PARTITIONS = 9_000, 3
LIMITS = {"batch_records": 3000, "run_batches": 3, "split_records": 500}
KEPT, LOST, NEW = 600, 400, 700
BUSY = (Moment.READING, Moment.STAGING, Moment.COMMITTING)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("brokers")).running() as running:
        yield running


@pytest.fixture
def variables(crashing, brokers, monkeypatch) -> dict[str, str]:
    found = crashing.variables() | {"TIDELINE_KAFKA": brokers.bootstrap}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.mark.parametrize("sink", [Sink.APPEND, Sink.TOPIC])
def test_each_broker_of_three_dies_while_a_batch_is_loaded_and_nothing_is_lost_or_doubled(
    crashing, brokers, variables, sink, tmp_path
):
    name = f"brokers_{sink.name.lower()}_{os.getpid()}"
    output = Output(pipeline=name, sink=sink, lakes=tmp_path)
    topics.created(brokers.admin, name, partitions=PARTITIONS)
    read_back.create_topics(output, brokers.bootstrap)
    orders.declare(crashing.pipelines / name, name, output, limits=LIMITS)
    left = list(brokers.brokers)

    def fill() -> bool:
        order_producer.fill(brokers.bootstrap, name, orders.records(Random(len(left)), RECORDS), PARTITIONS)
        return True

    fill()
    rounds = Rounds(name, variables=variables, logs=tmp_path, master="local[2]", refill=lambda: bool(left) and fill())
    witness = Witness(crashing.url)
    try:
        rounds.start()
        with watch(crashing.url, name, output.watched, every=0.5) as watched:
            while left:
                n_published = _busy(witness, rounds, name)
                brokers.kill(left[-1])
                until(lambda: _published(witness, name) != n_published)  # noqa: B023 - called before the next turn
                brokers.start(left.pop())
                until(lambda: brokers.in_sync(name) == set(brokers.brokers))
            rounds.finish(2 * TASK_S)
        broken, n_records = verdict(crashing.url, brokers.bootstrap, output)
    finally:
        rounds.stop()
        witness.close()
    assert [*watched.violations, *broken] == []
    assert n_records >= RECORDS


def _busy(witness: Witness, rounds: Rounds, pipeline: str) -> int:
    """Wait until a batch is read, staged or committed. Return how many are published."""
    deadline = time.monotonic() + TASK_S
    while not ((standing := witness.standing(pipeline)) and standing.moment in BUSY):
        rounds.check()
        assert time.monotonic() < deadline, "nothing was loaded"
        time.sleep(0.02)
    return _published(witness, pipeline)


def _published(witness: Witness, pipeline: str) -> int:
    [(n_published,)] = witness.rows(
        "SELECT count(*) FROM tideline.event WHERE pipeline = %s AND action = 'publish'", pipeline
    )
    return int(n_published)


def test_records_that_an_unclean_election_has_replaced_stop_the_stream(crashing, brokers, variables, tmp_path):
    """The log is longer than before when it is looked at again, so its end does not show that it was cut."""
    name = f"unclean_{os.getpid()}"
    first, second = 1, 2
    both = NewTopic(name, num_partitions=1, replica_assignment=[[first, second]], config={"min.insync.replicas": "1"})
    admin = brokers.admin
    admin.create_topics([both])[name].result()
    topics.until(lambda: brokers.in_sync(name) == {first, second})
    output = Output(pipeline=name, sink=Sink.APPEND, lakes=tmp_path)
    orders.declare(crashing.pipelines / name, name, output, limits=LIMITS)
    rounds = Rounds(name, variables=variables, logs=tmp_path, master="local[2]", refill=lambda: False)

    def fill(count: int) -> None:
        order_producer.fill(brokers.bootstrap, name, orders.records(Random(count), count), 1)

    fill(KEPT)
    until(lambda: brokers.in_sync(name) == {first, second})
    brokers.kill(second)
    until(lambda: brokers.in_sync(name) == {first})
    fill(LOST)
    try:
        rounds.start()
        rounds.finish(TASK_S)
        brokers.kill(first)
        brokers.start(second)
        brokers.elect_whoever_is_there(name)
        fill(NEW)
        brokers.start(first)
        with pytest.raises(NeedsOperatorError) as caught:
            rounds.plan("after")
    finally:
        rounds.stop()
    assert REPLACED.format(KEPT, KEPT + LOST, KEPT) in caught.value.problem
