"""The section `sink`, and the keys of `source` that depend on it: mistakes name line, key, what is expected and what was found."""

import pytest

from small_declaration import mistakes


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  table: ads.impressions", "  table: a.b\n  x: y", "11: sink.x: unknown key; known here: kind, table, item"),
        ("  table: ads.impressions", "  kind: s3", '10: sink.kind: expected one of postgres, kafka, delta, found "s3"'),
        ("  table: ads.impressions", "  kind: 5", "10: sink.kind: expected one of postgres, kafka, delta, found 5"),
        ("  table: ads.impressions", "  kind: kafka", "9: sink.topic: expected a Kafka topic name, found nothing"),
        ("  table: ads.impressions", "  kind: kafka\n  topic: a b", '11: sink.topic: expected a Kafka topic name, found "a b"'),
        ("  table: ads.impressions", "  kind: kafka\n  topic: a\n  table: b.c", "12: sink.table: unknown key; known here: kind, topic"),
        ("  table: ads.impressions", "  kind: delta\n  path: ''", "11: sink.path: expected an absolute path or s3://bucket/path, or {env: NAME}"),
        ("sink:\n  table: ads.impressions", "sink: ads.impressions", '9: sink: expected a mapping, found "ads.impressions"'),
        ("  table: ads.impressions", "  item: x", "9: sink.table: expected schema.table in lower case, found nothing"),
        ("ads.impressions", "impressions", '10: sink.table: expected schema.table in lower case, found "impressions"'),
        ("ads.impressions", "a.b;drop", '10: sink.table: expected schema.table in lower case, found "a.b;drop"'),
        ("  value:\n", "  tombstones: drop\n  value:\n", '5: source.tombstones: expected one of reject, keep, delete, found "drop"'),
        ("  value:\n", "  tombstones: delete\n  value:\n", "5: source.tombstones: expected delete only with sink.mode upsert"),
        ("  value:\n", "  key: 5\n  value:\n", "5: source.key: expected a mapping, found 5"),
        ("  value:\n", "  key: {format: yaml}\n  value:\n", 'debezium, found "yaml"'),
        ("  value:\n", "  key: {columns: {a: int}}\n  value:\n", "5: source.key.format: expected one of json"),
        ("  value:\n", "  key: {format: text, columns: {a: int}}\n  value:\n", "5: source.key: expected columns with format json, avro"),
        ("  value:\n", "  key: {format: json, columns: {a: inn}}\n  value:\n", "5: source.key.columns.a: "),
        ("  value:\n", "  key: {format: json, columns: {impression_id: int}}\n  value:\n", "5: source.key: expected other column names"),
        ("  table: ads.impressions", "  table: a.b\n  mode: merge", '11: sink.mode: expected append or upsert, found "merge"'),
        ("  table: ads.impressions", "  table: a.b\n  mode: upsert", "9: sink: expected the key `key` with mode upsert"),
        ("  table: ads.impressions", "  table: a.b\n  key: [x]", "11: sink.key: expected key only with mode upsert"),
        ("  table: ads.impressions", "  table: a.b\n  order: [x]", "11: sink.order: expected order only with mode upsert"),
        ("  table: ads.impressions", "  table: a.b\n  mode: upsert\n  key: [x, x]", "12: sink.key: expected different column names, found x, x"),
        ("  table: ads.impressions", "  table: a.b\n  mode: upsert\n  key: [x-y]", "12: sink.key"),
        ("  table: ads.impressions", "  table: a.b\n  mode: upsert\n  key: [x]\n  order: [x]", "13: sink.order: expected other columns than those"),
        ("  table: ads.impressions", "  table: a.b\n  mode: upsert\n  key: [x]\n  item: y", "13: sink.item: expected no item with mode upsert"),
    ],
)  # fmt: skip
def test_a_mistake_names_line_key_expected_and_found(declare, old, new, expected):
    [text] = mistakes(declare(old, new))
    assert expected in text


@pytest.mark.parametrize(
    ("key", "order", "expected"),
    [
        ("", "", "expected delete only with source.key, which names the row to delete"),
        ("  key: {format: text}\n", "", "expected delete only with a source.key that has all columns of sink.key, found none for x"),
        ("  key: {format: json, columns: {x: int}}\n", "  order: [y]\n", "expected delete only with a sink.order of columns that deletions have too"),
    ],
)  # fmt: skip
def test_tombstones_delete_only_where_they_name_a_row_that_is_older(declare, key, order, expected):
    folder = declare(
        "  value:\n    format: json\n    columns:\n      impression_id: string\nsink:\n  table: ads.impressions\n",
        f"  tombstones: delete\n{key}  value: {{format: bytes}}\nsink:\n  table: a.b\n  mode: upsert\n  key: [x]\n{order}",
    )
    [text] = mistakes(folder)
    assert text.startswith("5: source.tombstones: ")
    assert expected in text
