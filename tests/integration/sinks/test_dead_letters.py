"""Rejects of published batches are read in the topic of rejects once each, by readers of committed records."""

import json

import pytest
from confluent_kafka import Producer

from given_topics import topics
from given_topics.output_topics import committed_records
from loads.kafka_loading import loading_of, output_of
from servers.concurrency import together
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, Ranges
from tideline.ledger import letters
from tideline.sinks.kafka import dead_letters


@pytest.fixture
def dead(admin, topic):
    """Create the topic of rejects."""
    return topics.created(admin, f"{topic}_rejects", partitions=2)


@pytest.fixture
def loads(loading, admin, topic, dead):
    loads = loading_of(loading)
    loads.declare_topic(topic, output_of(admin, topic), rejects={"topic": dead})
    return loads


def found(loads, dead):
    """Return the committed letters by the offset of their record; fail if one is there twice."""
    read = committed_records(loads.bootstrap, dead)
    by_offset = {int(dict(one.headers())["tideline-origin"].decode().split("/")[2]): one for one in read}
    assert len(by_offset) == len(read)
    return by_offset


def produce(loads, topic, *values, **record):
    producer = Producer({"bootstrap.servers": loads.bootstrap})
    for value in values:
        producer.produce(topic, value, **record)
    assert producer.flush(20) == 0


def owed(loads):
    with loads.ledger() as ledger:
        return [one.batch_id for one in letters.owed(ledger, loads.pipeline.name)]


def send(loads):
    with loads.ledger() as ledger:
        return flow.send_letters(ledger, loads.pipeline)


def interrupted(loads, monkeypatch, module, name):
    """Run the pipeline, and let the driver die where it calls this function."""

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, die)
        with pytest.raises(KeyboardInterrupt):
            loads.run()


def test_a_reject_arrives_once_as_it_came_with_its_reason(loads, topic, dead):
    loads.produce(topic, 2)
    produce(loads, topic, b"\xff\x00bad", key=b"k", headers=[("h", b"\x01"), ("h", None)])
    loads.run()
    [(offset, letter)] = found(loads, dead).items()
    assert (offset, letter.key(), letter.value()) == (2, b"k", b"\xff\x00bad")
    [(step, reason, _)] = loads.rejects().values()
    topic_id = loads.rows("SELECT topic_id FROM tideline.stream")[0][0]
    assert letter.headers() == [
        ("h", b"\x01"),
        ("h", None),
        ("tideline-reason", reason.encode()),
        ("tideline-step", step.encode()),
        ("tideline-origin", f"{topic_id}/0/2".encode()),
    ]
    loads.produce(topic, 1)
    loads.run()
    assert (list(found(loads, dead)), owed(loads), send(loads)) == ([2], [], [])


def test_a_pipeline_that_writes_a_table_sends_letters_too(loading, topic, dead):
    loading = loading_of(loading)
    loading.declare(topic)
    declaration = json.loads((loading.folder / "pipeline.yaml").read_text())
    declaration["rejects"] = {"fail_above": 1.0, "topic": dead}
    (loading.folder / "pipeline.yaml").write_text(json.dumps(declaration))
    produce(loading, topic, b"{bad", b'{"id": 1, "name": "x", "price": 1}')
    loading.run()
    assert list(found(loading, dead)) == [0]


def test_what_an_earlier_run_has_left_is_sent_by_the_next(loads, topic, dead, monkeypatch):
    produce(loads, topic, b"{bad")
    interrupted(loads, monkeypatch, dead_letters, "send")
    assert (owed(loads), found(loads, dead)) == ([1], {})
    produce(loads, topic, b"{worse")
    loads.run()
    assert (sorted(found(loads, dead)), owed(loads)) == ([0, 1], [])


def test_of_two_senders_at_once_one_sends(loads, topic, dead, monkeypatch):
    produce(loads, topic, *[f"{{bad {n}".encode() for n in range(300)])
    interrupted(loads, monkeypatch, dead_letters, "send")
    together(*[lambda: send(loads)] * 4)
    send(loads)  # if each of them was ended by another
    assert (len(found(loads, dead)), owed(loads)) == (300, [])


def test_what_a_re_drive_has_loaded_before_is_not_sent(loads, admin, topic, dead, monkeypatch):
    produce(loads, topic, b"{bad", b'{"id": "one"}')
    interrupted(loads, monkeypatch, dead_letters, "send")
    value = {"format": "json", "columns": {"id": "string"}}
    loads.declare_topic(topic, f"{topic}_out", rejects={"topic": dead}, value=value)
    loads.run(KeptRejects())
    assert (list(found(loads, dead)), owed(loads)) == ([0], [])


def test_a_replay_sends_what_it_rejects(loading, topic, dead):
    loading = loading_of(loading)
    loading.declare(topic)
    declaration = json.loads((loading.folder / "pipeline.yaml").read_text())
    declaration["rejects"] = {"fail_above": 1.0, "topic": dead}
    (loading.folder / "pipeline.yaml").write_text(json.dumps(declaration))
    produce(loading, topic, b"{bad")
    loading.run()
    loading.run(Ranges(ranges=(NamedRange(topic, 0, OffsetRange(0, 1)),), replace=True), reason="again")
    assert [one.value() for one in committed_records(loading.bootstrap, dead)] == [b"{bad"] * 2


def test_a_topic_that_does_not_exist_fails_no_load_and_is_sent_to_later(loads, admin, topic):
    dead = f"{topic}_later"
    loads.declare_topic(topic, f"{topic}_out", rejects={"topic": dead})
    produce(loads, topic, b"{bad")
    loads.run()
    assert loads.states() == ["advanced"]
    [line] = send(loads)
    assert "the next run tries again" in line
    assert f"kafka-topics.sh --create --topic {dead}" in line
    topics.created(admin, dead)
    assert send(loads) == ["batch 1: its rejects are in the topic"]
    assert list(found(loads, dead)) == [0]


def test_upkeep_sends_what_runs_have_left(loads, topic, dead, monkeypatch):
    produce(loads, topic, b"{bad")
    interrupted(loads, monkeypatch, dead_letters, "send")
    with loads.ledger() as ledger:
        assert flow.upkeep(ledger, loads.pipeline) == ["batch 1: its rejects are in the topic"]
    assert list(found(loads, dead)) == [0]
