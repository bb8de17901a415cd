"""Whole loads from a topic to a topic: readers of committed records see each source record's rows once."""

import json

import pytest

import records
from given_topics import topics
from given_topics.output_topics import committed_records
from loads.kafka_loading import output_of
from tideline import settings
from tideline.deployment import secret
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, Ranges
from tideline.errors import FatalError
from tideline.sinks.kafka.kafka_topic import ORIGIN
from tideline_stack.broker import LocalBroker


def test_each_record_is_read_once_and_the_ledger_counts_it(loads, topic, out):
    loads.declare_topic(topic, out, key=["id"], headers=["name"], limits={"batch_records": 4})
    loads.produce(topic, 10)
    assert loads.run() == [1, 2, 3]
    loads.expect(out, [(0, offset) for offset in range(10)])
    assert sorted(loads.sent(out)) == [(str(n).encode(), {"price": 1.25}) for n in range(10)]
    assert {dict(one.headers())["name"] for one in committed_records(loads.bootstrap, out)} == {
        f"n{n}".encode() for n in range(10)
    }
    assert loads.counts() == {"n_read": 10, "n_written": 10, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}
    assert (loads.heads(), loads.staging_tables(), loads.states()) == ([10], [], ["advanced"] * 3)
    loads.produce(topic, 5, first=10)
    loads.run()
    loads.expect(out, [(0, offset) for offset in range(15)])


def test_records_without_a_declared_key_have_none(loads, topic, out):
    loads.declare_topic(topic, out)
    loads.produce(topic, 2)
    loads.run()
    assert {key for key, _ in loads.sent(out)} == {None}
    assert sorted(value["id"] for _, value in loads.sent(out)) == [0, 1]


def test_the_rows_of_a_record_are_sent_in_the_order_of_their_item(loads, admin, topic):
    out = topics.created(admin, f"{topic}_one")
    transform = """
        import pyarrow as pa

        def records(rows):
            # Backwards, and after the rows of the next records.
            again = [rows.append_column("line", pa.array([n] * len(rows), pa.int64())) for n in (10, 9, -1)]
            return pa.concat_tables(again)
    """
    loads.declare_topic(topic, out, item="line", transform=transform)
    loads.produce(topic, 3)
    loads.run()
    found = [dict(one.headers())[ORIGIN].decode().split("/", 2)[2] for one in committed_records(loads.bootstrap, out)]
    assert found == [f"{offset}/{line}" for offset in range(3) for line in (-1, 9, 10)]
    assert loads.counts()["n_written"] == 3


def test_rows_that_cannot_be_told_apart_reject_their_record(loads, topic, out):
    transform = """
        import pyarrow as pa
        import pyarrow.compute as pc

        def records(rows):
            return pa.concat_tables([rows, rows.filter(pc.equal(rows["id"], 1))])
    """
    loads.declare_topic(topic, out, transform=transform)
    loads.produce(topic, 3)
    loads.run()
    loads.expect(out, [(0, 0), (0, 2)])
    [(place, (step, reason, _))] = loads.rejects().items()
    assert (place, step) == ((0, 1), "store")
    assert reason == "the record has become several rows, and sink.item names no column that orders them"
    assert loads.counts()["n_rejected"] == 1


def test_rows_that_cannot_be_encoded_become_rejects(loads, admin, topic):
    out = output_of(admin, topic, **{"max.message.bytes": "3000", "cleanup.policy": "compact"})
    transform = """
        import pyarrow as pa
        import pyarrow.compute as pc

        def records(rows):
            nan = pc.if_else(pc.equal(rows["id"], 1), float("nan"), 0.5)
            key = pc.if_else(pc.equal(rows["id"], 2), None, rows["name"])
            big = pc.if_else(pc.equal(rows["id"], 3), "x" * 4000, "x" * 2000)
            return rows.append_column("nan", nan).append_column("k", key).append_column("big", big)
    """
    loads.declare_topic(topic, out, key=["k"], transform=transform)
    loads.produce(topic, 5)
    loads.run()
    loads.expect(out, [(0, 0), (0, 4)])
    reasons = {offset: reason for (_, offset), (_, reason, _) in loads.rejects().items()}
    assert reasons == {
        1: "UnencodableError: column nan: JSON has no NaN and no infinite numbers",
        2: "UnencodableError: column k: expected a key, which a compacted topic requires, found null",
        3: "UnencodableError: the record has more bytes than the 3000 that the topic takes (max.message.bytes)",
    }


def test_rejects_are_driven_again_and_appended(loads, topic, out):
    loads.declare_topic(topic, out, key=["id"])
    loads.produce(topic, 2)
    records.produce(loads.bootstrap, topic, ['{"id": "three", "name": "c", "price": 1}'])
    loads.run()
    loads.expect(out, [(0, 0), (0, 1)])
    loads.declare_topic(topic, out, key=["id"], value={"format": "json", "columns": {"id": "string", "name": "string"}})
    assert loads.run(KeptRejects()) == [2]
    loads.expect(out, [(0, 0), (0, 1), (0, 2)])


def test_a_batch_of_rejects_only_and_one_with_nothing_to_write_are_published(loads, topic, out):
    transform = """
        import pyarrow.compute as pc

        def records(rows):
            return rows.filter(pc.less(rows["id"], 0))
    """
    loads.declare_topic(topic, out, transform=transform)
    records.produce(loads.bootstrap, topic, ["{bad", "{worse"])
    loads.run()
    loads.produce(topic, 2)
    loads.run()
    assert loads.states() == ["advanced", "advanced"]
    assert loads.counts() == {"n_read": 4, "n_written": 0, "n_rejected": 2, "n_filtered": 2, "n_gap": 0}
    assert committed_records(loads.bootstrap, out) == []
    assert loads.heads() == [4]


def test_a_replay_is_refused_unless_the_declaration_appends(loads, topic, out):
    loads.declare_topic(topic, out)
    loads.produce(topic, 3)
    loads.run()
    again = Ranges(ranges=(NamedRange(topic, 0, OffsetRange(1, 3)),), replace=True)
    with pytest.raises(FatalError, match=r"(?s)a topic cannot replace.*sink\.replay: append"):
        loads.run(again, reason="once more")
    loads.declare_topic(topic, out, replay="append")
    loads.run(again, reason="once more")
    loads.expect(out, [(0, 0), (0, 1), (0, 2), (0, 1), (0, 2)])
    assert loads.states() == ["advanced", "advanced"]


def test_a_backfill_is_appended(loads, topic, out):
    loads.produce(topic, 3)
    loads.declare_topic(topic, out, source={"start": "latest"})
    loads.run()
    loads.produce(topic, 1, first=3)
    loads.run()
    loads.expect(out, [(0, 3)])
    loads.run(Ranges(ranges=(NamedRange(topic, 0, OffsetRange(0, 3)),), replace=False), reason="the older ones")
    loads.expect(out, [(0, offset) for offset in range(4)])


def test_the_output_topic_must_exist_and_must_not_be_the_source(loads, topic, out):
    loads.produce(topic, 1)
    loads.declare_topic(topic, f"{out}x")
    with pytest.raises(FatalError, match=rf"kafka-topics\.sh --create --topic {out}x"):
        loads.run()
    loads.declare_topic(topic, topic)
    with pytest.raises(FatalError, match="would load its own output for ever"):
        loads.run()


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ({"key": ["nope"]}, "nope: missing, and sink.key names it"),
        ({"headers": ["nope"]}, "nope: missing, and sink.headers names it"),
        ({"item": "price"}, "price: expected a signed integer or a text to order rows by"),
    ],
)
def test_columns_that_do_not_fit_are_named_before_anything_is_read(loads, topic, out, sink, problem):
    loads.produce(topic, 1)
    loads.declare_topic(topic, out, **sink)
    with pytest.raises(FatalError) as caught:
        loads.run()
    assert problem in str(caught.value)
    assert loads.states() == ["failed"]


def test_a_compacted_topic_needs_a_key(loads, admin, topic):
    out = output_of(admin, topic, **{"cleanup.policy": "compact"})
    loads.produce(topic, 1)
    loads.declare_topic(topic, out)
    with pytest.raises(FatalError, match=r"each record needs a key: declare sink\.key"):
        loads.run()


def test_a_frame_transform_is_sent_in_the_order_of_the_source(loads, admin, topic):
    """Its rows come shuffled from many tasks."""
    out = topics.created(admin, f"{topic}_one")
    transform = """
        from pyspark.sql import functions as f

        def frame(df):
            return df.orderBy(f.desc("id"))
    """
    loads.declare_topic(topic, out, transform=transform)
    loads.produce(topic, 200)
    loads.run()
    assert [value["id"] for _, value in loads.sent(out)] == list(range(200))
    assert json.loads(committed_records(loads.bootstrap, out)[0].value()) == {"id": 0, "name": "n0", "price": 1.25}


def test_an_output_of_another_cluster_has_its_own_login(loads, topic, tmp_path_factory, monkeypatch):
    jars = settings.PROJECT / ".local" / "jars" / "kafka"
    other = LocalBroker(tmp_path_factory.mktemp("other"), jars)
    other.start()
    try:
        records.create(other.bootstrap, name="elsewhere")
        monkeypatch.setenv("TEST_OTHER", other.sasl_bootstrap)
        monkeypatch.setenv("TEST_PASSWORD", other.sasl_password)
        login = {
            "protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": other.sasl_username,
            "sasl_password": {"env": "TEST_PASSWORD"},
        }
        loads.declare_topic(topic, "elsewhere", bootstrap_servers={"env": "TEST_OTHER"}, security=login)
        loads.produce(topic, 3)
        loads.run()
        assert len(committed_records(other.bootstrap, "elsewhere")) == 3
        monkeypatch.setenv("TEST_PASSWORD", secret.marked("wrong"))
        loads.produce(topic, 1, first=3)
        with pytest.raises(FatalError, match=r"(?s)refused the connection.*correct sink\.security"):
            loads.run()
    finally:
        other.stop()
