"""Keys are decoded like values, and tombstones become what the declaration says."""

from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

from author_pipelines import DECLARATION, author
from tideline.declaration import Source
from tideline.formats.format import RawRecords
from tideline.records.record_decoding import RecordDecoder, formats
from tideline.testing import trial

VALUE = {"format": "json", "columns": {"name": "string", "price": "bigint"}}
KEY = {"format": "json", "columns": {"id": "bigint"}}


def decoded(*records, key=KEY, value=VALUE, tombstones="reject"):
    section = {"bootstrap_servers": "a:1", "topics": ["t"], "value": value, "key": key, "tombstones": tombstones}
    source = Source.model_validate(section, context="test")
    keys, values = (pa.array(part, pa.binary()) for part in zip(*records, strict=True))
    found = RecordDecoder(formats(source, Path()))(RawRecords(part="value", keys=keys, values=values))
    positions = sorted([*found.kept.to_pylist(), *found.deleted.to_pylist(), *found.rejected])
    assert positions == list(range(len(records))), "each record is kept, deleted or rejected, and only one of these"
    assert [*found.rejected] == sorted(found.rejected)
    return found


def test_columns_of_the_key_stand_beside_those_of_the_value():
    found = decoded((b'{"id": 1}', b'{"name": "a"}'), (b'{"id": 2}', b'{"name": "b", "price": 3}'))
    assert found.table.to_pylist() == [{"id": 1, "name": "a", "price": None}, {"id": 2, "name": "b", "price": 3}]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "key is null"),
        (b"no JSON", "key: "),
        (b'{"id": "1"}', "key: id: expected bigint"),
        (b'{"id": 1, "id": 1}', "key: "),
        (b'{"id": 99999999999999999999}', "key: id"),
    ],
)
def test_a_record_whose_key_does_not_decode_is_rejected_by_a_reason_that_names_the_key(key, reason):
    found = decoded((b'{"id": 1}', b"{}"), (key, b"{}"), (b'{"id": 2}', b"{}"))
    assert [*found.rejected] == [1]
    assert found.rejected[1].startswith(reason)
    assert found.table["id"].to_pylist() == [1, 2]


def test_a_value_that_does_not_decode_is_named_before_its_key():
    assert decoded((b"no JSON", b"no JSON")).rejected[0].startswith("not valid JSON")


@pytest.mark.parametrize(("key_format", "kind"), [("text", str), ("bytes", bytes)])
def test_a_whole_key_is_one_column_of_that_name(key_format, kind):
    found = decoded((b"a", b"{}"), (b"", b"{}"), key={"format": key_format})
    assert found.table["key"].to_pylist() == [kind(b"a", "utf-8") if kind is str else b"a", kind()]


def test_a_tombstone_is_rejected_unless_the_declaration_says_otherwise():
    assert [*decoded((b'{"id": 1}', None)).rejected] == [0]


@pytest.mark.parametrize("key", [KEY, None])
def test_a_kept_tombstone_is_a_row_without_values_in_its_place(key):
    records = [(b'{"id": %d}' % n, None if n % 2 else b'{"price": %d}' % n) for n in range(5)]
    records.append((b'{"id": 5}', b"no JSON"))
    found = decoded(*records, key=key, tombstones="keep")
    assert found.table["price"].to_pylist() == [0, None, 2, None, 4]
    assert [*found.rejected] == [5]
    if key:
        assert found.table["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_tombstone_that_deletes_gives_its_key_and_no_row():
    records = [(b'{"id": %d}' % n, None if n % 2 else b"{}") for n in range(4)]
    found = decoded(*records, (b"no key", None), tombstones="delete")
    assert found.table["id"].to_pylist() == [0, 2]
    assert found.deletions.to_pylist() == [{"id": 1}, {"id": 3}]
    assert [*found.rejected] == [4]


def test_a_batch_of_nothing_but_tombstones_has_no_rows():
    found = decoded((b'{"id": 1}', None), (b'{"id": 2}', None), tombstones="delete")
    assert (found.table.num_rows, found.deleted.to_pylist()) == (0, [0, 1])
    assert found.table.column_names == ["id", "name", "price"]


UPSERT = (
    dedent(DECLARATION).replace(
        "  value:\n", "  key: {format: json, columns: {id: bigint}}\n  tombstones: delete\n  value:\n"
    )
    + "  mode: upsert\n  key: [id]\n"
)


def test_a_sample_shows_which_rows_its_tombstones_delete(tmp_path):
    folder = author(tmp_path / "orders", declaration=UPSERT)
    lines = [(b'{"id": 1}', b'{"order_id": 5}'), (b'{"id": 1}', None), (None, b'{"order_id": 6}')]
    found = trial(folder, lines)
    assert [(row["id"], row["order_id"]) for row in found.rows] == [(1, 5)]
    assert found.deletions == [(2, {"id": 1})]
    assert [(one.line, one.reason) for one in found.rejects] == [(3, "key is null")]
    assert (found.n_read, found.n_written, found.n_filtered) == (3, 2, 0)
