"""`records` of transform.py: records that it drops, multiplies or cannot process, and transforms that are wrong altogether."""

import json
import os
import sys

import pytest

import records
from tideline.errors import FatalError
from tideline.records import transforms

EXPLODED = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    item integer NOT NULL,
    word text,
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint,
    {key}
);
"""
FILTER = """\
    import pyarrow.compute as pc

    def records(batch):
        return batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 3), 0))
    """
KEY = "PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)"
KEY_WITH_ITEM = "PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset, item)"
EXPLODE = """\
    import pyarrow as pa
    import pyarrow.compute as pc

    def records(batch):
        parents = pc.list_parent_indices(batch["words"].combine_chunks())
        seen, items = {}, []
        for parent in parents.to_pylist():
            items.append(seen.get(parent, 0))
            seen[parent] = items[-1] + 1
        return pa.table({
            "item": pa.array(items, pa.int32()),
            "word": pc.list_flatten(batch["words"].combine_chunks()),
            "kafka": batch["kafka"].take(parents),
        })
    """


def produced(loading, count=20):
    topic = records.create(loading.bootstrap, partitions=2)
    return topic, records.produce(loading.bootstrap, topic, map(records.record, range(count)), partitions=2)


def test_what_is_filtered_is_counted(loading):
    topic, sent = produced(loading)
    loading.declare(topic, transform=FILTER)
    loading.run()
    assert set(loading.output()) == {place for place, value in sent.items() if json.loads(value)["id"] % 4 == 0}
    assert loading.counts() == {"n_read": 20, "n_written": 5, "n_rejected": 0, "n_filtered": 15, "n_gap": 0}


def test_a_record_may_become_several_rows(loading):
    topic = records.create(loading.bootstrap)
    words = [["a", "b", "c"], [], ["d"], ["e", "f"]]
    records.produce(loading.bootstrap, topic, (json.dumps({"words": w}) for w in words))
    loading.declare(
        topic,
        columns={"words": "array<string>"},
        transform=EXPLODE,
        target=EXPLODED.format(key=KEY_WITH_ITEM),
        item="item",
    )
    loading.run()
    rows = loading.rows("SELECT kafka_offset, item, word FROM ads.output ORDER BY 1, 2")
    assert rows == [(at, n, word) for at, row in enumerate(words) for n, word in enumerate(row)]
    assert loading.counts() == {"n_read": 4, "n_written": 3, "n_rejected": 0, "n_filtered": 1, "n_gap": 0}


def test_a_record_of_which_one_row_is_refused_is_wholly_a_reject(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, (json.dumps({"words": w}) for w in (["a", "long"], ["b"], ["long", "c"])))
    target = EXPLODED.format(key=KEY_WITH_ITEM).replace("word text", "word varchar(3)")
    loading.declare(topic, columns={"words": "array<string>"}, transform=EXPLODE, target=target, item="item")
    loading.run()
    assert loading.rows("SELECT kafka_offset, item, word FROM ads.output") == [(1, 0, "b")]
    assert set(loading.rejects()) == {(0, 0), (0, 2)}
    assert loading.counts() == {"n_read": 3, "n_written": 1, "n_rejected": 2, "n_filtered": 0, "n_gap": 0}


def test_a_record_of_which_two_rows_have_one_key_is_a_reject_that_names_it(loading):
    topic, sent = produced(loading)
    doubled = "import pyarrow as pa\ndef records(batch): return pa.concat_tables([batch, batch])"
    loading.declare(topic, transform=doubled)
    loading.run()
    rejects = loading.rejects()
    assert (set(rejects), loading.output()) == (set(sent), {})
    assert {step for step, _, _ in rejects.values()} == {"store"}
    assert all("output_pkey" in reason for _, reason, _ in rejects.values())


def test_a_record_that_the_transform_cannot_take_is_rejected_alone(loading):
    topic, sent = produced(loading)
    text = """\
        def records(batch):
            bad = [n for n in batch["id"].to_pylist() if n in (3, 4, 17)]
            if bad:
                raise ArithmeticError(f"no {bad[0]}\\nsecond line")
            return batch
        """
    loading.declare(topic, transform=text)
    loading.run()
    bad = {place: value for place, value in sent.items() if json.loads(value)["id"] in (3, 4, 17)}
    assert loading.rejects() == {
        place: ("transform", f"ArithmeticError: no {json.loads(value)['id']}", value) for place, value in bad.items()
    }
    assert set(loading.output()) == set(sent) - set(bad)
    assert loading.counts() == {"n_read": 20, "n_written": 17, "n_rejected": 3, "n_filtered": 0, "n_gap": 0}


@pytest.mark.parametrize(
    ("gives_up", "reason"),
    [
        ("raise ValueError('half \\ud800')", "ValueError: half \\ud800"),
        ("raise ValueError('\\x1b[1A\\x1b[2Kbatch 1 is fine')", "ValueError: \\x1b[1A\\x1b[2Kbatch 1 is fine"),
    ],
)
def test_however_a_transform_gives_up_it_costs_the_record_only(loading, gives_up, reason):
    topic, sent = produced(loading)
    text = f"""\
        def records(batch):
            if 7 in batch["id"].to_pylist():
                {gives_up}
            return batch
        """
    loading.declare(topic, transform=text)
    loading.run()
    ((place, (step, said, _)),) = loading.rejects().items()
    assert (json.loads(sent[place])["id"], step, said) == (7, "transform", reason)
    assert set(loading.output()) == set(sent) - {place}


def test_rows_without_an_offset_are_refused(loading):
    topic, _ = produced(loading)
    text = """\
        import pyarrow as pa

        def records(batch):
            kafka = [{**record, "offset": None} for record in batch["kafka"].to_pylist()]
            lost = pa.array(kafka, batch["kafka"].type)
            return batch.set_column(batch.schema.get_field_index("kafka"), "kafka", lost)
        """
    loading.declare(topic, transform=text)
    assert "returned a row without an offset" in loading.refusal(FatalError)


BROKEN = """\
    def records(batch):
        if batch.num_rows:
            raise LookupError("no such thing")
        return batch
    """


def test_a_transform_that_fails_for_all_records_fails_the_attempt(loading):
    topic, sent = produced(loading, 400)
    loading.declare(topic, transform=BROKEN)
    text = loading.refusal(FatalError)
    assert "`records` of transform.py failed for each of the first 100 records: LookupError: no such thing" in text
    ranges = "SELECT batch_id, stream_id, offsets::text FROM tideline.batch_range"
    planned = loading.rows(ranges)
    records.produce(loading.bootstrap, topic, [records.record(1000)])
    loading.transform("")
    loading.run()
    assert set(planned) <= set(loading.rows(ranges))
    assert set(loading.output()) >= set(sent)
    assert sum(loading.heads()) == 401


def test_columns_that_differ_from_those_of_an_empty_table_cost_the_record(loading):
    topic, sent = produced(loading)
    text = """\
        def records(batch):
            return batch.drop_columns("name") if 7 in batch["id"].to_pylist() else batch
        """
    loading.declare(topic, transform=text)
    loading.run()
    ((place, (step, reason, _)),) = loading.rejects().items()
    assert (json.loads(sent[place])["id"], step) == (7, "transform")
    assert "name" in reason


def test_types_that_only_look_different_are_cast(loading):
    """Inferred types depend on the values: without rows they are null, for whole numbers 64 bits wide."""
    topic, sent = produced(loading)
    text = """\
        import pyarrow as pa

        def records(batch):
            kind = pa.int64() if batch.num_rows else pa.int32()
            return batch.set_column(batch.schema.get_field_index("id"), "id", batch["id"].cast(kind))
        """
    loading.declare(topic, transform=text)
    loading.run()
    assert set(loading.output()) == set(sent)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def records(batch): return batch.slice(0, 1)[7]", "raised on a table without rows"),
        ("def records(batch): return batch.drop_columns('kafka')", "with the column `kafka` unchanged"),
        ("def records(batch): return batch.to_pandas()", "found DataFrame"),
        ("def records(batch): return None", "found NoneType"),
        ("def record(batch): return batch", "expected a function `records` or `frame`, found neither"),
        ("import nowhere", "cannot be imported: ModuleNotFoundError"),
        ("def records(batch) return batch", "cannot be imported: SyntaxError"),
        ("def records(batch): return batch.append_column('name', batch['name'])", "name: produced twice"),
        (
            "def records(batch): return batch.append_column('kafka_offset', batch['id'])",
            "kafka_offset: filled by the sink",
        ),
    ],
)
def test_a_transform_that_cannot_work_is_refused_before_anything_is_read(loading, text, problem):
    topic, _ = produced(loading)
    loading.declare(topic, transform=text)
    assert problem in loading.refusal(FatalError)
    assert (loading.staging_tables(), loading.rows("SELECT * FROM tideline.staged_count")) == ([], [])


def test_rows_of_a_record_that_is_not_in_the_batch_are_refused(loading):
    topic, _ = produced(loading)
    text = """\
        import pyarrow as pa
        import pyarrow.compute as pc

        def records(batch):
            kafka = batch["kafka"].combine_chunks()
            parts = {field.name: kafka.field(field.name) for field in kafka.type}
            parts["offset"] = pc.add(parts["offset"], 1000)
            moved = pa.StructArray.from_arrays(parts.values(), fields=list(kafka.type))
            return batch.set_column(batch.schema.get_field_index("kafka"), "kafka", moved)
        """
    loading.declare(topic, transform=text)
    assert "`kafka` is not a record of the batch" in loading.refusal(FatalError)


def test_a_corrected_transform_is_loaded_though_file_size_and_time_are_the_same(loading, topic, monkeypatch):
    """Images and archives set times, and a correction may change one character only."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    loading.declare(topic)
    found = []
    for number in (3, 4):
        loading.transform(f"def records(batch): return {number}")
        os.utime(loading.folder / "transform.py", (1_600_000_000, 1_600_000_000))
        found.append(transforms.load(loading.pipeline).records(None))
    assert found == [3, 4]
    assert not (loading.folder / "__pycache__").exists()
