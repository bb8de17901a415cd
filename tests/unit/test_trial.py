"""A sample becomes the rows and rejects that the Spark job would make of it."""

from decimal import Decimal

import pytest

from author_pipelines import DECLARATION, author
from tideline.errors import FatalError
from tideline.testing import Reject, trial

SELECTIVE = """
    import pyarrow.compute as pc

    def records(batch):
        if pc.any(pc.equal(batch["order_id"], 13)).as_py():
            raise ValueError("13 is\\nunlucky")
        return batch.filter(pc.greater(batch["amount"], 0))
"""


def test_each_record_is_written_rejected_or_filtered(tmp_path):
    folder = author(tmp_path / "orders", transform=SELECTIVE)
    lines = [
        b'{"order_id": 1, "amount": "2.50"}',
        b"no JSON",
        b'{"order_id": 13, "amount": 1}',
        b'{"order_id": 2, "amount": 0}',
        None,
        b'{"order_id": 3, "amount": 9}',
    ]
    found = trial(folder, lines)
    assert found.rows == [{"order_id": 1, "amount": Decimal("2.50")}, {"order_id": 3, "amount": Decimal("9.00")}]
    assert [(reject.line, reject.step) for reject in found.rejects] == [(2, "decode"), (3, "transform"), (5, "decode")]
    assert found.rejects[1] == Reject(line=3, step="transform", reason="ValueError: 13 is")
    assert (found.n_read, found.n_written, len(found.rejects), found.n_filtered) == (6, 2, 3, 1)


def test_without_a_transform_the_declared_columns_are_the_rows(tmp_path):
    found = trial(author(tmp_path / "orders"), [b'{"order_id": 1, "more": true}'])
    assert found.rows == [{"order_id": 1, "amount": None}]


def test_a_record_that_becomes_several_rows_is_written_once(tmp_path):
    twice = "import pyarrow as pa\ndef records(batch):\n    return pa.concat_tables([batch, batch])\n"
    found = trial(author(tmp_path / "orders", transform=twice), [b'{"order_id": 1}', b'{"order_id": 2}'])
    assert [row["order_id"] for row in found.rows] == [1, 1, 2, 2]
    assert (found.n_read, found.n_written, found.n_filtered) == (2, 2, 0)


def test_a_sample_without_records_has_the_columns_of_the_rows(tmp_path):
    found = trial(author(tmp_path / "orders"), [])
    assert (found.rows, found.n_read, found.table.column_names) == ([], 0, ["order_id", "amount", "kafka"])


def test_a_sample_of_several_arrow_batches_keeps_its_line_numbers(tmp_path):
    lines = [b'{"order_id": %d}' % number for number in range(1, 45_001)]
    lines[44_000] = b"no JSON"
    found = trial(author(tmp_path / "orders"), lines)
    assert [reject.line for reject in found.rejects] == [44_001]
    assert [row["order_id"] for row in found.rows] == [*range(1, 44_001), *range(44_002, 45_001)]


def test_the_transform_sees_a_position_and_a_fixed_timestamp(tmp_path):
    position = """
        import pyarrow.compute as pc

        def records(batch):
            for part in ("topic", "offset", "timestamp"):
                batch = batch.append_column(part, pc.struct_field(batch["kafka"], part))
            return batch.drop_columns(["order_id", "amount"])
    """
    folder = author(tmp_path / "orders", transform=position)
    [first, second] = trial(folder, [b"{}", b"{}"]).rows
    assert (first["topic"], first["offset"], second["offset"]) == ("orders", 0, 1)
    assert first["timestamp"].isoformat() == "2000-01-01T00:00:00+00:00"


def test_a_pipeline_whose_topics_have_a_pattern_is_tried_as_well(tmp_path):
    declaration = DECLARATION.replace("topics: [orders]", "topic_pattern: ^orders_.*$")
    assert trial(author(tmp_path / "orders", declaration=declaration), [b'{"order_id": 1}']).n_written == 1


def test_a_transform_that_fails_for_every_record_is_a_mistake_of_the_transform(tmp_path):
    failing = "def records(batch):\n    if len(batch):\n        raise KeyError('price')\n    return batch\n"
    folder = author(tmp_path / "orders", transform=failing)
    with pytest.raises(FatalError, match=r"`records` of transform\.py failed for each of the first 100 records"):
        trial(folder, [b'{"order_id": 1}'] * 100)
    assert len(trial(folder, [b'{"order_id": 1}'] * 99).rejects) == 99


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("pa.array([7] * len(batch), pa.int64())", "returned a row of orders/0 offset 7, which is not in the sample"),
        ("pa.nulls(len(batch), pa.int64())", "returned a row of no offset"),
    ],
)
def test_rows_of_records_that_are_not_in_the_sample_are_a_mistake(tmp_path, change, found):
    moved = f"""
        import pyarrow as pa

        def records(batch):
            kafka = batch["kafka"].combine_chunks()
            parts = [{change} if part.name == "offset" else kafka.field(part.name) for part in kafka.type]
            moved = pa.StructArray.from_arrays(parts, fields=list(kafka.type))
            return batch.set_column(2, "kafka", moved)
    """
    with pytest.raises(FatalError, match=found):
        trial(author(tmp_path / "orders", transform=moved), [b'{"order_id": 1}'])


def test_a_mistake_in_the_declaration_is_named_with_its_line(tmp_path):
    folder = author(tmp_path / "orders", declaration=DECLARATION.replace("json", "yson"))
    with pytest.raises(FatalError, match=r"pipeline\.yaml:7: source\.value\.format: expected one of json"):
        trial(folder, [])


def test_a_column_makes_no_tombstone_of_its_record_whatever_its_name(tmp_path):
    named = DECLARATION.replace("order_id: bigint", "tideline_deletes: bigint")
    found = trial(author(tmp_path / "orders", declaration=named), [b'{"tideline_deletes": 1}'])
    assert (found.rows, found.deletions) == ([{"tideline_deletes": 1, "amount": None}], [])
