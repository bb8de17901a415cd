"""Rejects keep every byte of the record, and too many of them fail the attempt."""

import base64
import json

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer

import records
from given_ledger import ledgers
from given_ledger.ledgers import query
from tideline.errors import FatalError, NeedsOperatorError
from tideline.records.staged_counts import Recorder
from tideline.records.transforms import KAFKA

ANY_BYTES = bytes(range(256))
KEPT = {"retention.ms": "-1"}
"""Settings of topics with old records: otherwise the broker would delete them before they are read."""


def send(loading, topic, **record):
    """Send one record and wait for the acknowledgement."""
    errors = []
    producer = Producer({"bootstrap.servers": loading.bootstrap, "message.max.bytes": 20_000_000})
    producer.produce(topic, on_delivery=lambda error, _: errors.append(error), **record)
    assert producer.flush(30) == 0
    if errors[0]:
        raise KafkaException(errors[0])


def stored(loading):
    """Return key, value, headers and timestamp of the rejects, in order."""
    rows = loading.rows(
        "SELECT key, value, headers, kafka_timestamp_ms FROM tideline.reject ORDER BY stream_id, kafka_offset"
    )
    return [(*(None if part is None else bytes(part) for part in row[:3]), row[3]) for row in rows]


def test_key_value_and_headers_of_a_reject_are_kept_to_the_byte(loading):
    topic = records.create(loading.bootstrap, **KEPT)
    headers = [("any", ANY_BYTES), ("any", b"again"), ("empty", b""), ("null", None), ('qu"ote\n', b"x")]
    send(loading, topic, key=ANY_BYTES, value=ANY_BYTES, headers=headers, timestamp=1_700_000_000_123)
    send(loading, topic, key=None, value=None, timestamp=1)
    send(loading, topic, key=b"", value=b"", timestamp=1)
    loading.declare(topic)
    loading.run()
    (key, value, found, timestamp), *others = stored(loading)
    assert (key, value, timestamp) == (ANY_BYTES, ANY_BYTES, 1_700_000_000_123)
    assert [(h["key"], h.get("value")) for h in json.loads(found)] == [
        (name, None if content is None else base64.b64encode(content).decode()) for name, content in headers
    ]
    assert others == [(None, None, None, 1), (b"", b"", None, 1)]
    assert [reason for _, reason, _ in loading.rejects().values()][1].startswith("value is null")


def test_any_moment_is_a_timestamp(loading):
    """The first time that this client can send, one after the year 9999, and the last thousand centuries that Spark can represent."""
    topic = records.create(loading.bootstrap, **KEPT, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    moments = [1, 253_402_300_800_000, 9_000_000_000_000_000]
    for number, moment in enumerate(moments):
        send(loading, topic, value=records.record(number), timestamp=moment)
        send(loading, topic, value=b"{bad", timestamp=moment)
    loading.declare(topic)
    loading.run()
    assert stored(loading) == [(None, b"{bad", None, moment) for moment in moments]
    assert loading.published() == len(moments)


def test_a_moment_that_spark_would_change_is_none(loading):
    """Spark uses the Julian calendar there: the 29th of February 1500 and the day after it become the same day."""
    topic = records.create(loading.bootstrap, **KEPT)
    first = -2_208_988_800_000
    changed = [first - 1, -14_825_808_000_000, -62_135_596_800_001, -9_000_000_000_000_000]
    for moment in (*changed, first):
        send(loading, topic, value=b"{bad", timestamp=moment)
    loading.declare(topic)
    loading.run()
    assert stored(loading) == [*[(None, b"{bad", None, None)] * len(changed), (None, b"{bad", None, first)]


def test_a_timestamp_that_spark_cannot_hold_is_null(loading):
    """Nanoseconds in place of milliseconds: brokers refuse them unless the topic is configured otherwise."""
    topic = records.create(loading.bootstrap, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    send(loading, topic, value=records.record(1), timestamp=2**62)
    send(loading, topic, value=b"{bad", timestamp=1_795_599_646_000_000_000)
    send(loading, topic, value=records.record(2))
    loading.declare(topic)
    loading.run()
    assert len(loading.output()) == 2
    assert stored(loading) == [(None, b"{bad", None, None)]


def test_a_value_of_ten_megabytes_is_loaded_or_rejected_whole(loading):
    topic = records.create(loading.bootstrap, **{"max.message.bytes": "20000000"})
    long = "x" * 10_000_000
    send(loading, topic, value=json.dumps({"id": 1, "name": long}))
    send(loading, topic, value=long)
    send(loading, topic, value=records.record(2))
    loading.declare(topic)
    loading.run()
    assert loading.rows("SELECT id, length(name) FROM ads.output ORDER BY id") == [(1, len(long)), (2, 2)]
    assert [value for _, value, _, _ in stored(loading)] == [long.encode()]


@pytest.mark.parametrize("part", ["key", "value", "headers"])
def test_what_is_large_is_stored_at_once_whichever_part_of_a_record_it_is(ledger, ledger_url, part):
    """Collected until there are a thousand, such rejects would make a statement that Postgres cannot execute."""
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {ledgers.start_streams(ledger, 1)[0]: (0, 100)}))
    (piece,) = attempt.ranges
    large = 3_000_000
    with Recorder(ledger_url, attempt.attempt, {(piece.topic, piece.partition): piece.stream_id}) as recorder:
        for offset in range(9):
            one = {"topic": piece.topic, "partition": piece.partition, "offset": offset}
            one[part] = "x" * large if part == "headers" else b"x" * large
            recorder.reject("decode", pa.array([one], KAFKA), ["because"])
        assert query(ledger, "SELECT count(*)::int FROM tideline.staged_reject") == [(9,)]
        sizes = f"SELECT min(octet_length({part})), max(octet_length({part})) FROM tideline.staged_reject"
        assert query(ledger, sizes) == [(large, large)]


def test_a_record_is_kept_as_it_came_whatever_a_transform_makes_of_it(loading):
    topic = records.create(loading.bootstrap, **KEPT)
    value = json.dumps({"id": 1, "price": 5000})
    send(loading, topic, key=b"key", value=value, headers=[("h", b"1")], timestamp=1_700_000_000_123)
    text = """\
        import pyarrow as pa

        def records(batch):
            kafka = batch["kafka"].to_pylist()
            for record in kafka:
                record |= {"key": b"forged", "value": None, "headers": None, "timestamp": None}
            forged = pa.array(kafka, batch["kafka"].type)
            return batch.set_column(batch.schema.get_field_index("kafka"), "kafka", forged)
        """
    loading.declare(topic, transform=text)
    loading.run()
    assert stored(loading) == [(b"key", value.encode(), b'[{"key":"h","value":"MQ=="}]', 1_700_000_000_123)]


FORGED = """\
    from pyspark.sql import functions as F

    def frame(df):
        forged = df.kafka.withField("timestamp", F.lit(None).cast("timestamp"))
        return df.withColumn("kafka", forged).repartition(3)
    """


def test_a_record_is_kept_as_it_came_whatever_a_frame_makes_of_it(loading):
    """Its row does not fit, or the table refuses it. A frame has no bytes to change, and what it changes is read once more."""
    topic = records.create(loading.bootstrap, **KEPT)
    values = [json.dumps({"id": number, "price": price}) for number, price in ((1, 5000), (2, 1), (3, 2))]
    for value in values:
        send(loading, topic, key=b"key", value=value, headers=[("h", b"1")], timestamp=1_700_000_000_123)
    loading.declare(topic, transform=FORGED, target=NARROW, fail_above=0.9)
    loading.run()
    kept = (b'[{"key":"h","value":"MQ=="}]', 1_700_000_000_123)
    assert stored(loading) == [(b"key", values[0].encode(), *kept), (b"key", values[2].encode(), *kept)]
    assert [step for step, *_ in loading.rejects().values()] == ["store", "store"]
    assert loading.counts() == {"n_read": 3, "n_written": 1, "n_rejected": 2, "n_filtered": 0, "n_gap": 0}


NARROW = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint CHECK (id <> 3), name text, price numeric(5, 2),
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


def test_a_record_of_which_several_tasks_refuse_rows_after_a_frame_is_one_reject(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [json.dumps({"id": number, "price": 5000}) for number in range(20)])
    text = """\
        from pyspark.sql import functions as F

        def frame(df):
            both = df.withColumn("line", F.explode(F.array(F.lit(1), F.lit(2))))
            return both.repartition(4, "line", "id").drop("line")
        """
    loading.declare(topic, transform=text, target=NARROW, fail_above=1.0)
    loading.run()
    assert len(loading.rejects()) == 20
    assert loading.counts() == {"n_read": 20, "n_written": 0, "n_rejected": 20, "n_filtered": 0, "n_gap": 0}


def test_a_frame_that_names_a_record_of_another_batch_makes_no_reject_of_it(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [json.dumps({"id": number, "price": 5000}) for number in range(6)])
    text = "def frame(df): return df.withColumn('kafka', df.kafka.withField('offset', df.kafka.offset + 3))"
    loading.declare(topic, transform=text, target=NARROW, fail_above=1.0, batch_records=3)
    with pytest.raises(FatalError, match=r"rows of 3 records that the batch does not have"):
        loading.run()
    assert loading.rejects() == {}


def test_many_rejects_are_stored_in_pieces(loading):
    topic = records.create(loading.bootstrap)
    sent = records.produce(
        loading.bootstrap, topic, (b"{bad %d" % n if n % 2 else records.record(n) for n in range(5000))
    )
    loading.declare(topic)
    loading.run()
    bad = {place: value for place, value in sent.items() if value.startswith(b"{bad")}
    assert {place: value for place, (_, _, value) in loading.rejects().items()} == bad
    assert loading.published() == 2500


@pytest.mark.parametrize(("bad", "good", "fails"), [(99, 0, False), (100, 0, True), (100, 99, True), (100, 100, False)])
def test_a_share_of_rejects_fails_the_attempt_from_a_hundred_on(loading, bad, good, fails):
    topic = records.create(loading.bootstrap)
    values = [b"{bad"] * (bad - 1) + [None] + [records.record(n) for n in range(good)]
    records.produce(loading.bootstrap, topic, values)
    loading.declare(topic)
    if fails:
        text = loading.refusal(NeedsOperatorError)
        assert f"{bad} of {bad + good} records were rejected, more than the declared share of 0.5; most often: " in text
        assert "tombstone" not in text
    else:
        loading.run()
        assert loading.counts()["n_rejected"] == bad
    assert len(loading.rejects()) == (0 if fails else bad)


def test_the_declared_share_rules(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [b"{bad"] * 150)
    loading.declare(topic, fail_above=0.0)
    assert "declared share of 0;" in loading.refusal(NeedsOperatorError)
    loading.declare(topic, fail_above=1.0)
    loading.run()
    assert loading.counts()["n_rejected"] == 150
