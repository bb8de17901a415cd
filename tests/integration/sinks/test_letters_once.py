"""Letters on a real ledger and a real broker, without Spark: whenever their sender dies, each reject is in the topic once."""

from dataclasses import dataclass

import pytest

from given_ledger.decisions import load
from given_ledger.ledgers import PIPELINE, claim, plan, publish, query, refused, stage, start_streams
from given_ledger.planners import declared
from given_topics import topics
from given_topics.output_topics import N_ROWS, committed_records, origins, output, receipt, rows
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import BatchIdentity
from tideline.errors import RetryableError
from tideline.ledger import letters
from tideline.ledger.connection import Ledger
from tideline.sinks.kafka import dead_letters
from tideline.sinks.kafka.kafka_topic import KafkaTopic


@dataclass
class Letters:
    """A pipeline with a topic of rejects, and a stream with records to reject."""

    ledger: Ledger
    servers: str
    dead: str
    pipeline: Pipeline
    stream: int

    def load(self, start, *rejected):
        """Publish ten records, of which these are rejects; return the batch."""
        return load(self.ledger, self.stream, start, start + 10, *rejected).batch_id

    def send(self):
        return dead_letters.send(self.ledger, self.pipeline)

    def dies(self, monkeypatch, module, name):
        """Let the sender die where it calls this function."""

        def die(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(module, name, die)
            with pytest.raises(KeyboardInterrupt):
                self.send()

    def owed(self):
        return [one.batch_id for one in letters.owed(self.ledger, PIPELINE)]

    def offsets(self):
        """Return the offsets of the rejects that a reader of committed records sees, in the order of the topic."""
        read = committed_records(self.servers, self.dead)
        return [int(dict(one.headers())["tideline-origin"].decode().split("/")[2]) for one in read]


@pytest.fixture
def scene(ledger, admin, broker, topic):
    dead = topics.created(admin, f"{topic}_rejects", **{"max.message.bytes": "5000"})
    one = declared(broker.bootstrap, "ads", name=PIPELINE)
    pipeline = one.model_copy(update={"rejects": one.rejects.model_copy(update={"topic": dead})})
    return Letters(ledger, broker.bootstrap, dead, pipeline, start_streams(ledger, 1)[0])


def known(scene, batch):
    return BatchIdentity(
        query(scene.ledger, "SELECT identity FROM tideline.batch WHERE batch_id = %s", batch)[0][0], batch
    )


def test_letters_are_owed_until_the_topic_has_them(scene, monkeypatch):
    batch = scene.load(0, 7, 3)
    scene.dies(monkeypatch, KafkaTopic, "commit")
    assert (scene.owed(), scene.offsets()) == ([batch], [])
    assert scene.send() == [f"batch {batch}: its rejects are in the topic"]
    assert (scene.owed(), scene.offsets()) == ([], [3, 7])
    assert scene.send() == []


def test_letters_that_the_topic_has_are_not_sent_again(scene, monkeypatch):
    batch = scene.load(0, 3)
    scene.dies(monkeypatch, letters, "settle")
    assert (scene.owed(), scene.offsets()) == ([batch], [3])
    assert scene.send() == [f"batch {batch}: its rejects are in the topic"]
    assert (scene.owed(), scene.offsets()) == ([], [3])


def test_rows_and_rejects_of_a_batch_may_go_to_one_topic(scene):
    """Each has a receipt of its own."""
    batch = scene.load(0, 3)
    output(scene.servers, scene.dead, pipeline=PIPELINE).commit(
        known(scene, batch), receipt(1), iter(rows(batch)), N_ROWS
    )
    assert scene.send() == [f"batch {batch}: its rejects are in the topic"]
    assert len(origins(scene.servers, scene.dead)) == N_ROWS + 1


def test_a_receipt_of_an_attempt_that_the_ledger_does_not_know_is_not_taken_for_its_own(scene):
    """After a restore of the ledger, a batch that was open then may have other rejects. They would never be sent."""
    first, second = scene.load(0, 3), scene.load(10, 13)
    topic = KafkaTopic(PIPELINE, scene.pipeline.source.brokers, scene.dead, seconds=60, purpose=".rejects")
    topic.commit(known(scene, first), receipt(1), iter(()), 0)
    [line, sent] = scene.send()
    assert "from another attempt, which this ledger does not know" in line
    assert (
        f"kafka-consumer-groups.sh --delete --group tideline.{PIPELINE}.{known(scene, first).identity}.rejects" in line
    )
    assert sent == f"batch {second}: its rejects are in the topic"
    assert (scene.owed(), scene.offsets()) == ([first], [13])


def test_a_sender_that_fails_is_no_error_and_leaves_them_owed(scene, monkeypatch):
    batch = scene.load(0, 3)

    def fails(*_, **__):
        raise RetryableError("the brokers are away", next_step="wait")

    monkeypatch.setattr(KafkaTopic, "commit", fails)
    [line] = scene.send()
    assert "the next run tries again: the brokers are away" in line
    assert scene.owed() == [batch]


def test_each_batch_has_letters_of_its_own(scene):
    scene.load(0, 3)
    scene.load(10, 13)
    assert len(scene.send()) == 2
    assert scene.offsets() == [3, 13]


def test_only_a_published_batch_with_rejects_owes_letters(ledger):
    [stream] = start_streams(ledger, 1)
    with_rejects = load(ledger, stream, 0, 10, 3).batch_id
    load(ledger, stream, 10, 20)
    planned = plan(ledger, {stream: (20, 30)})
    assert [one.batch_id for one in letters.owed(ledger, PIPELINE)] == [with_rejects]
    insert = "INSERT INTO tideline.letters (batch_id, pipeline) VALUES (%s, %s)"
    assert "only a batch that is published owes letters" in refused(ledger, insert, planned, PIPELINE)
    assert query(ledger, "SELECT count(*) FROM tideline.letters") == [(1,)]


def test_what_is_noted_about_letters_stays(ledger):
    load(ledger, start_streams(ledger, 1)[0], 0, 10, 3)
    assert "nothing else changes" in refused(ledger, "UPDATE tideline.letters SET published_at = now()")
    letters.settle(ledger, 1)
    for sent_at in ("NULL", "now()"):
        assert "they are sent once" in refused(ledger, f"UPDATE tideline.letters SET sent_at = {sent_at}")
    for statement in ("DELETE FROM tideline.letters", "TRUNCATE tideline.letters"):
        assert refused(ledger, statement)


def test_a_value_that_is_too_large_goes_without_it_and_keeps_no_other_letter_back(scene):
    attempt = claim(scene.ledger, plan(scene.ledger, {scene.stream: (0, 2)}))
    stage(scene.ledger, attempt)
    with scene.ledger.transaction():
        scene.ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[scene.stream] * 2,
            offsets=[0, 1],
            steps=["decode"] * 2,
            reasons=["not JSON"] * 2,
            values=[b"x" * 6_000, b"x" * 600],
            **{name: [None] * 2 for name in ("timestamps_ms", "keys", "headers")},
        )
    publish(scene.ledger, attempt, written={scene.stream: 0})
    scene.send()
    found = committed_records(scene.servers, scene.dead)
    assert [one.value() for one in found] == [None, b"x" * 600]
    assert dict(found[0].headers())["tideline-left-out"] == b"value"
