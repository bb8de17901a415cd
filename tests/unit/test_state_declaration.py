"""The section `state`: mistakes name line, key, what is expected and what was found. The processor must fit it."""

import pytest

from author_pipelines import SESSIONS, SESSIONS_TABLE, VISITS, author
from small_declaration import mistakes, write
from tideline.declaration import pipelines
from tideline.errors import FatalError
from tideline.testing import trial

STATE = "state:\n  key: impression_id\n  columns: {clicks: bigint}\n"


def test_defaults(tmp_path):
    state = pipelines.load(write(tmp_path, new=STATE)).state
    assert state.key_columns == ("impression_id",)
    assert (state.event_time, state.late, state.on_gap) == (None, "reject", "keep")
    assert (state.lateness_minutes, state.ahead_minutes, state.undo_batches, state.max_bytes, state.renamed) == (
        0,
        60,
        500,
        65_536,
        {},
    )


def test_a_key_may_have_several_columns(tmp_path):
    state = pipelines.load(write(tmp_path, new=STATE.replace("impression_id", "[a, b]"))).state
    assert state.key_columns == ("a", "b")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("key: impression_id", "key: []", "12: state.key: expected a column name, or a list of different ones, found a list"),
        ("key: impression_id", "key: [a, a]", "12: state.key: expected a column name, or a list of different ones, found a list"),
        ("key: impression_id", "key: 5", "12: state.key: expected a column name, or a list of different ones, found 5"),
        ("  key: impression_id\n", "", "11: state.key: expected a column name, or a list of different ones, found nothing"),
        ("columns: {clicks: bigint}", "columns: {}", "13: state.columns: expected column names with Spark SQL types, at least one"),
        ("columns: {clicks: bigint}", "columns: {clicks: big}", "13: state.columns.clicks: "),
        ("  key:", "  late: drop\n  key:", '12: state.late: expected reject or process, found "drop"'),
        ("  key:", "  on_gap: skip\n  key:", '12: state.on_gap: expected keep or reset, found "skip"'),
        ("  key:", "  lateness_minutes: -1\n  key:", "12: state.lateness_minutes: expected an integer, 0 or above, found -1"),
        ("  key:", "  ahead_minutes: 0\n  key:", "12: state.ahead_minutes: expected an integer from 1 to 52704000, found 0"),
        ("  key:", "  ahead_minutes: 52704001\n  key:", "12: state.ahead_minutes: expected an integer from 1 to 52704000, found 52704001"),
        ("  key:", "  undo_batches: 0\n  key:", "12: state.undo_batches: expected an integer above 0, found 0"),
        ("  key:", "  max_bytes: 16777217\n  key:", "12: state.max_bytes: expected an integer from 1 to 16777216, found 16777217"),
        ("  key:", "  renamed: {a: b}\n  key:", "12: state.renamed.a: expected one of state.columns, found 'a'"),
        ("  key:", "  renamed: {clicks: clicks}\n  key:", "12: state.renamed.clicks: expected a name that is no column any more"),
        ("  key:", "  ttl: 5\n  key:", "12: state.ttl: unknown key; known here: key, columns, event_time, lateness_minutes"),
    ],
)  # fmt: skip
def test_a_mistake_names_line_key_expected_and_found(tmp_path, old, new, expected):
    assert old in STATE
    [text] = mistakes(write(tmp_path, new=STATE.replace(old, new, 1)))
    assert expected in text


@pytest.mark.parametrize(
    ("sink", "line"),
    [
        ("  kind: kafka\n  topic: a", 12),
        ("  table: a.b\n  mode: upsert\n  key: [x]", 13),
        ("  kind: delta\n  path: /a", 12),
    ],
)
def test_state_needs_a_table_that_rows_are_added_to(tmp_path, sink, line):
    [text] = mistakes(write(tmp_path, "  table: ads.impressions\n", f"{sink}\n{STATE}"))
    assert text.startswith(f"{line}: state: expected state only with sink.kind postgres and sink.mode append")


def pipeline(tmp_path, old="", new="", **files):
    assert old in VISITS
    given = {"declaration": VISITS.replace(old, new, 1), "target": SESSIONS_TABLE, "transform": SESSIONS}
    return author(tmp_path / "sessions", **{**given, **files})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("key: user_id", "key: visitor", "state.key: expected one of the columns user_id, at, price, found visitor"),
        ("key: user_id", "key: kafka", "state.key: expected one of the columns user_id, at, price, found kafka"),
        ("{user_id: string", "{user_id: double", "state.key: expected columns of the types string, boolean, smallint"),
        (
            "event_time: at",
            "event_time: when",
            "state.event_time: expected one of the columns user_id, at, price, found when",
        ),
        (
            "event_time: at",
            "event_time: price",
            "state.event_time: expected a timestamp with a zone, found price of Arrow type decimal",
        ),
    ],
)
def test_columns_that_the_records_do_not_have_are_a_mistake_before_anything_is_read(tmp_path, old, new, expected):
    with pytest.raises(FatalError, match="sessions: ") as caught:
        trial(pipeline(tmp_path, old, new), [])
    assert expected in caught.value.problem


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (None, "expected `processor` in transform.py beside the section `state` in pipeline.yaml, found none"),
        ("def records(batch): return batch", "expected `processor` in transform.py beside"),
        (SESSIONS + "\n    def frame(df): return df\n", "expected `processor` or `frame`, found both"),
        (SESSIONS.replace("= Sessions()", "= Sessions"), "found the class Sessions itself"),
        (SESSIONS.replace("(Processor)", ""), "an instance of a class that extends Processor, found Sessions"),
        (SESSIONS.replace("def on_record", "def on_records"), "cannot be imported: TypeError"),
        (SESSIONS.replace('"bigint"', '"big"'), "`rows` of the processor: unknown type 'big'"),
        (SESSIONS.replace('{"user_id": "string", "clicks": "bigint"}', "{}"), "expected `rows` of the processor with the columns"),
    ],
)  # fmt: skip
def test_a_processor_that_does_not_fit_is_a_mistake(tmp_path, transform, expected):
    with pytest.raises(FatalError) as caught:
        trial(pipeline(tmp_path, transform=transform), [])
    assert expected in caught.value.problem


def test_a_processor_without_a_section_state_is_a_mistake(tmp_path):
    declaration = VISITS[: VISITS.index("    state:")]
    with pytest.raises(FatalError, match=r"expected the section `state` in pipeline\.yaml beside `processor`"):
        trial(pipeline(tmp_path, declaration=declaration), [])
