"""An author sees what a processor makes of records without Spark, Kafka and Postgres: in a test, and of a sample."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

import tideline.cli  # noqa: F401 - declares the commands
from author_pipelines import SESSIONS, SESSIONS_TABLE, VISITS, author
from tideline.authoring import sample
from tideline.authoring.trial import tried
from tideline.cli.app import app
from tideline.declaration import pipelines
from tideline.domain.facts import RecordContent
from tideline.errors import FatalError
from tideline.records import transforms
from tideline.settings import PROJECT
from tideline.testing import run, trial

EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    return author(tmp_path / "sessions", declaration=VISITS, target=SESSIONS_TABLE, transform=SESSIONS)


@pytest.fixture
def sessions(folder):
    return transforms.load(pipelines.load(folder)).processor


def click(user, minute, **more):
    return {"user_id": user, "at": EPOCH + timedelta(minutes=minute), **more}


def line(user, minute, price="1"):
    at = (EPOCH + timedelta(minutes=minute)).isoformat()
    return json.dumps({"user_id": user, "at": at, "price": price}).encode()


@pytest.mark.parametrize("cuts", [[], [0, 1], [3], [1, 2, 3, 4]])
def test_a_test_of_a_processor_names_records_and_cuts_and_compares_rows(sessions, cuts):
    rows = run(sessions, [click("ada", 0), click("ada", 10), click("bob", 11), click("bob", 80)], cuts=cuts)
    assert rows == [{"user_id": "ada", "clicks": 2}, {"user_id": "bob", "clicks": 1}]
    assert [(one.key, one.value["clicks"], one.expires_at) for one in rows.states] == [
        ("bob", 1, EPOCH + timedelta(minutes=110))
    ]
    assert rows.rejects == []


def test_rejects_are_named_by_their_place_in_the_list(sessions):
    late = [click("ada", 60), click("ada", 61, price=13), click("eve", 54), click(None, 61), click("ada", 62)]
    rows = run(sessions, late, cuts=[1, 2])
    assert [(one.number, one.reason.split(":")[0]) for one in rows.rejects] == [
        (1, "ValueError"),
        (2, "late"),
        (3, "no key"),
    ]


def test_partitions_and_offsets_may_be_given(sessions):
    given = [
        click("ada", 0, kafka={"partition": 3, "offset": 7}),
        click("ada", 1, kafka={"partition": 4}),
        click("bob", 1, kafka={"partition": 3}),
    ]
    rows = run(sessions, given)
    assert [one.reason for one in rows.rejects] == ['key ["ada"] belongs to clicks/3, and a key has one partition']


def test_a_test_may_say_when_a_record_ahead_of_its_time_was_written(sessions):
    ahead = click("eve", 500, kafka={"timestamp": EPOCH})
    rows = run(sessions, [click("ada", 0), ahead, click("ada", 10)], cuts=[2])
    assert [(one.number, one.reason.split(":")[0]) for one in rows.rejects] == [(1, "ahead of its time")]


def test_a_sample_of_a_topic_has_times_and_one_of_a_file_has_none(folder):
    """Lines of a file were written at no time, so none of them is ahead."""
    late, now = datetime(2126, 1, 1, tzinfo=UTC), datetime.now(UTC)
    values = [json.dumps({"user_id": "ada", "at": at.isoformat(), "price": "1"}).encode() for at in (now, late)]
    assert trial(folder, values).rejects == []
    timestamps = (now, late)  # both the event and the record of a sender with a wrong clock
    written = [
        RecordContent(
            topic="clicks",
            partition=0,
            offset=n,
            timestamp_ms=round(at.timestamp() * 1000),
            key=None,
            value=value,
            headers=(),
        )
        for n, (at, value) in enumerate(zip(timestamps, values, strict=True))
    ]
    [reject] = tried(pipelines.load(folder), sample.of_records(written)).rejects
    assert reject.line == 2
    assert reject.reason.endswith(", when it was first planned")


def test_a_record_that_does_not_have_the_declared_columns_is_a_mistake_of_the_test(sessions):
    with pytest.raises(ValueError, match="record 1: column at: a timestamp without a zone"):
        run(sessions, [click("ada", 0), {"user_id": "ada", "at": datetime(2026, 11, 1)}])  # noqa: DTZ001
    with pytest.raises(ValueError, match="record 0: column usr: not declared"):
        run(sessions, [{"usr": "ada"}])


def test_without_a_section_state_there_is_nothing_to_run(folder, sessions):
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text[: text.index("state:")])
    with pytest.raises(FatalError, match="expected the section `state`"):
        run(sessions, [])


def test_a_sample_shows_rows_rejects_and_the_states_that_are_left(folder):
    lines = [
        line("ada", 0),
        b"no JSON",
        line("ada", 1),
        line("bob", 50, price="13"),
        line("eve", 80),
        b'{"user_id": null}',
        line("bob", 81),
    ]
    found = trial(folder, lines)
    assert found.rows == [{"user_id": "ada", "clicks": 2}]
    assert found.lines == [3]
    assert [(one.line, one.step) for one in found.rejects] == [(2, "decode"), (4, "transform"), (6, "transform")]
    assert [(one.key, one.value["clicks"]) for one in found.states] == [("bob", 1), ("eve", 1)]
    # The row is one of a timer: it makes no record a written one.
    assert (found.n_read, found.n_written, found.n_filtered) == (7, 0, 4)


def test_an_empty_sample_has_the_columns_of_the_rows(folder):
    found = trial(folder, [])
    assert (found.rows, found.states, found.table.column_names) == ([], [], ["user_id", "clicks", "kafka"])


def test_a_records_transform_comes_first_and_may_not_multiply_records(tmp_path):
    keyed = SESSIONS + '\n    def records(batch): return batch.filter(batch["price"].is_valid())\n'
    folder = author(tmp_path / "one", declaration=VISITS, target=SESSIONS_TABLE, transform=keyed)
    assert trial(folder, [line("ada", 0), line("bob", 1, price=None)]).n_filtered == 2
    twice = SESSIONS + "\n    import pyarrow as pa\n    def records(batch): return pa.concat_tables([batch, batch])\n"
    folder = author(tmp_path / "two", declaration=VISITS, target=SESSIONS_TABLE, transform=twice)
    with pytest.raises(FatalError, match="several rows of the record at offset 0"):
        trial(folder, [line("ada", 0)])


def test_a_test_may_name_the_folder_of_the_pipeline(folder, sessions):
    clicks = [click("ada", 0), click("ada", 45)]
    assert run(folder, clicks) == run(sessions, clicks) == [{"user_id": "ada", "clicks": 1}]


def test_the_example_of_the_docs_works(tmp_path):
    page = (PROJECT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    section = page[page.index("\n## State\n") : page.index("\n### Reference tables\n")]
    transform, example = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    [state] = re.findall(r"^    state:\n(?:      .*\n)+", section, re.MULTILINE)
    source = VISITS[: VISITS.index("    state:")].replace("at: timestamp", "clicked_at: timestamp")
    folder = author(tmp_path / "visits", declaration=source + state, target=SESSIONS_TABLE, transform=transform)
    found = {"__file__": str(folder / "test_visits.py")}
    exec(example, found)
    found["test_a_pause_of_half_an_hour_ends_a_visit"]()


def test_tideline_test_and_validate_know_a_stateful_pipeline(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    (tmp_path / "sample.jsonl").write_bytes(b"\n".join([line("ada", 0), line("bob", 40), line("bob", 41)]))
    done = CliRunner().invoke(app, ["test", "sessions", str(tmp_path / "sample.jsonl"), "--json"])
    said = json.loads(done.stdout)
    assert said["rows"] == [{"line": 1, "row": {"user_id": "ada", "clicks": 1}}]
    assert said["states"] == [
        {"key": "bob", "value": {"first": "2026-11-01T00:40:00Z", "clicks": 2}, "expires_at": "2026-11-01T01:11:00Z"}
    ]
    shown = CliRunner().invoke(app, ["test", "sessions", str(tmp_path / "sample.jsonl")])
    assert "States" in shown.stdout
    assert "2026-11-01T01:11:00Z" in shown.stdout
    found = CliRunner().invoke(app, ["validate", "sessions"])
    assert (found.exit_code, found.stdout.splitlines()[-1][-5:]) == (0, "0 bad"), found.stdout
    assert "`processor` is given the columns user_id, at, price, and makes user_id, clicks" in " ".join(
        found.stdout.split()
    )


KNOWN = """
    from tideline.processors import Processor


    class Known(Processor):
        rows = {"user_id": "string", "clicks": "bigint"}
        tables = {"factors": "ads.factors"}

        def open(self, tables):
            self.factors = {row["user_id"]: row["factor"] for row in tables["factors"].to_pylist()}

        def on_record(self, key, record, state):
            clicks = (state.value["clicks"] if state.value else 0) + self.factors[key]
            state.value = {"clicks": clicks}
            yield {"user_id": key, "clicks": clicks}


    processor = Known()
"""
FACTORS = [{"user_id": "ada", "factor": 10}]


@pytest.fixture
def known(tmp_path):
    return author(tmp_path / "known", declaration=VISITS, target=SESSIONS_TABLE, transform=KNOWN)


def test_a_test_gives_reference_tables_as_rows(known):
    rows = run(known, [click("ada", 0), click("ada", 1), click("bob", 1)], cuts=[1], tables={"factors": FACTORS})
    assert [row["clicks"] for row in rows] == [10, 20]
    assert [(one.number, one.reason.split(":")[0]) for one in rows.rejects] == [(2, "KeyError")]
    found = trial(known, [line("ada", 0)], tables={"factors": FACTORS})
    assert found.rows == [{"user_id": "ada", "clicks": 10}]


@pytest.mark.parametrize(("tables", "found"), [(None, "none"), ({"prices": []}, "prices")])
def test_other_reference_tables_than_declared_are_a_mistake_of_the_test(known, tables, found):
    with pytest.raises(ValueError, match=f"expected those of the processor, factors; found {found}"):
        run(known, [], tables=tables)


def test_a_processor_that_does_not_open_is_refused_before_a_record_is_folded(known):
    with pytest.raises(FatalError, match=r"`open` of the processor in .* failed: KeyError"):
        run(known, [], tables={"factors": [{"user_id": "ada"}]})


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ('["ads.factors"]', "expected names with tables, found list"),
        ('{"factors": "factors"}', "expected schema.table in lower case for 'factors', found 'factors'"),
        ('{"factors": "ads.factors; DROP"}', "expected schema.table in lower case"),
    ],
)
def test_reference_tables_of_another_form_are_refused(tmp_path, declared, problem):
    text = KNOWN.replace('{"factors": "ads.factors"}', declared)
    folder = author(tmp_path / "known", declaration=VISITS, target=SESSIONS_TABLE, transform=text)
    with pytest.raises(FatalError, match=problem):
        run(folder, [], tables={})


def test_reference_tables_without_a_method_that_takes_them_are_refused(tmp_path):
    text = KNOWN.replace("def open", "def opened")
    folder = author(tmp_path / "known", declaration=VISITS, target=SESSIONS_TABLE, transform=text)
    with pytest.raises(FatalError, match=r"expected a method `open\(self, tables\)` beside them"):
        run(folder, [], tables={"factors": FACTORS})


def test_validate_says_that_it_did_not_read_a_reference_table(known, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    done = CliRunner().invoke(app, ["validate", "known", "--json"])
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["where"] == "table ads.factors"]
    assert (found["verdict"], found["found"]) == (
        "not checked",
        "whether the processor can read it, which takes --database",
    )


def test_columns_may_have_the_names_of_those_that_records_get_when_they_are_folded(tmp_path):
    names = {"user_id": "tideline_key", "price": "tideline_stream"}
    declaration, transform = VISITS, SESSIONS
    for old, new in names.items():
        declaration, transform = declaration.replace(old, new), transform.replace(f'"{old}"', f'"{new}"')
    table = SESSIONS_TABLE.replace("user_id", "tideline_key")
    folder = author(tmp_path / "sessions", declaration=declaration, target=table, transform=transform)
    lines = [line("ada", 0), line("ada", 10), line("ada", 80)]
    for old, new in names.items():
        lines = [one.replace(old.encode(), new.encode()) for one in lines]
    assert trial(folder, lines).rows == [{"tideline_key": "ada", "clicks": 2}]
