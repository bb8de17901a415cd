"""Text from people and records is stored unchanged, whatever it contains, and never forges a line on a terminal or in a database."""

import json
from contextlib import suppress

import pytest
from confluent_kafka import TopicPartition

import records
from faults.bad_input.test_hostile_names import shell
from given_ledger import ledgers
from given_ledger.ledgers import query
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME
from tideline import flow
from tideline.declaration import pipelines
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, OneBatch
from tideline.errors import FatalError, NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

pytestmark = pytest.mark.usefixtures("canary")

FORGED = "batch 99: published"
NASTY = (
    f"it's \"quoted\" 50% %s %(x)s {{}} {{0}} {{{{ params }}}} $1 \\n '; DROP TABLE ads.canary; --\n{FORGED}\r{FORGED}"
    f"\x1b[2J\x1b[31mred\x07\u2028{FORGED}\x85{FORGED}\u202egnp \u200b é 日本 \U0001f600 [bold]x[/] :smile:"
)
NOT_TEXT = b"caf\xe9 \xff"
"""Text that a shell passes on from a file in another encoding."""


def of_events(ledger: Ledger, action: str) -> list[str]:
    return [row[0] for row in query(ledger, "SELECT detail ->> 'reason' FROM tideline.event WHERE action = %s", action)]


def harmless(done) -> str:
    """Return what a command has printed, after checks: no terminal control characters, and no forged line."""
    said = done.stdout + done.stderr
    assert all(char.isprintable() or char == "\n" for char in said), said
    assert FORGED not in [line.strip() for line in said.splitlines()]
    return said


def test_the_history_keeps_the_reason_of_each_act_unchanged(cli, ledger, broker, topic, admin):
    topics.produce(broker, topic, 6)
    loaded = cli_process.load(cli, ledger, rejected=1)
    topics.produce(broker, topic, 6)
    (open_one,) = cli_process.plan(cli, ledger, "manual__2")
    acts = {
        "retry": ["retry", str(open_one)],
        "abandon": ["abandon", str(open_one)],
        "skip": ["skip", NAME, f"{topic}/0 [6, 7)"],
        "replay": ["replay", NAME, "--batch", str(loaded)],
        "redrive": ["redrive", NAME, "--reject-reason", "JSON"],
    }
    for command in acts.values():
        harmless(cli(*command, "--reason", NASTY))
    admin.delete_records([TopicPartition(topic, 0, 9)])[TopicPartition(topic, 0)].result()
    with suppress(NeedsOperatorError):
        cli_process.plan(cli, ledger, "manual__3")
    harmless(cli("accept-loss", NAME, topic, "--reason", NASTY))
    topics.recreate(admin, topic)
    harmless(cli("adopt-topic", NAME, topic, "--reason", NASTY))

    said = query(ledger, "SELECT DISTINCT action FROM tideline.event WHERE detail ->> 'reason' = %s", NASTY)
    assert {row[0] for row in said} >= {"retry", "abandon", "skip", "plan", "accept loss", "retire"}
    for looks in (["batches", NAME], ["coverage", NAME], *(["batch", str(n)] for n in (open_one, open_one + 1))):
        shown = harmless(cli(*looks))
        if looks[0] != "batches":
            assert r"--\nbatch 99: published\rbatch 99: published\x1b[2J\x1b[31mred\x07\u2028batch" in shown
    (hole,) = (hole for hole in cli.json("coverage", NAME)["holes"] if hole["hole"] == "skipped")
    assert hole["reason"] == NASTY


def test_ten_thousand_characters_of_reason_are_kept_and_stay_in_their_row(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    (open_one,) = cli_process.plan(cli, ledger, "manual__1")
    reason = "because " * 1250 + "end"
    cli("retry", str(open_one), "--reason", reason)
    assert of_events(ledger, "retry") == [reason]
    (line,) = (line for line in harmless(cli("batch", str(open_one))).splitlines() if "because" in line)
    assert line.endswith("end")


@pytest.mark.parametrize(
    "command",
    [
        ["retry", "1", "--reason", NOT_TEXT],
        ["skip", NAME, "{topic}/0 [0, 1)", "--reason", NOT_TEXT],
        ["abandon", "1", "--reason", NOT_TEXT],
        ["replay", NAME, "--range", "{topic}/0 [0, 1)", "--reason", NOT_TEXT],
        ["redrive", NAME, "--reject-reason", NOT_TEXT, "--reason", "because"],
        ["rejects", NAME, "--reason", NOT_TEXT],
    ],
)
def test_bytes_that_are_no_text_are_refused_in_words_and_change_nothing(cli, ledger, broker, topic, command):
    topics.produce(broker, topic, 5)
    cli_process.plan(cli, ledger, "manual__1")
    history = "SELECT count(*) FROM tideline.event"
    before = query(ledger, history)
    words = [word.format(topic=topic) if isinstance(word, str) else word for word in command]
    assert cli.error(*words, code=20)["entry"] == "text-cannot-be-kept"
    assert query(ledger, history) == before


def test_a_name_of_bytes_that_are_no_text_is_refused_in_words(cli):
    cli.variables["TIDELINE_ACTOR"] = NOT_TEXT.decode(errors="surrogateescape")
    assert cli.error("batches", NAME, code=20)["entry"] == "text-cannot-be-kept"


@pytest.mark.parametrize(
    "words", [["accept-loss", NAME, "ads\nbatch 99: published"], ["skip", NAME, "ads\x1b[31m/0 [0, 1)"]]
)
def test_a_topic_that_is_no_name_is_refused(cli, words):
    harmless(cli(*words, "--reason", "because", code=2))


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_what_no_database_keeps_is_refused_by_each_verb_and_changes_nothing(cli, ledger, broker, topic, text):
    """A form can contain it, though no command line can."""
    topics.produce(broker, topic, 5)
    (open_one,) = cli_process.plan(cli, ledger, "manual__1")
    pipeline = pipelines.load(cli.folder / NAME)
    asked, run = Broker(pipeline.source), Run(dag_id=NAME, run_id="manual__2")
    piece = NamedRange(topic, 0, OffsetRange(0, 1))
    acts = [
        lambda: flow.plan(ledger, asked, pipeline, run, OneBatch(batch_id=open_one), reason=text),
        lambda: flow.plan(ledger, asked, pipeline, run, KeptRejects(reason_like=text), reason="because"),
        lambda: flow.plan(ledger, asked, pipeline, Run(dag_id=NAME, run_id=text), NewRecords()),
        lambda: flow.advance(ledger, NAME, Run(dag_id=text, run_id="manual__1")),
        lambda: flow.retry(ledger, open_one, reason=text),
        lambda: flow.skip(ledger, asked, pipeline, piece, reason=text),
        lambda: flow.abandon(ledger, open_one, reason=text),
        lambda: flow.accept_loss(ledger, asked, pipeline, topic, 0, reason=text),
    ]
    history = "SELECT max(event_id), count(*) FROM tideline.event"
    before = query(ledger, history)
    for act in acts:
        with pytest.raises(FatalError) as refused:
            act()
        assert refused.value.entry == "text-cannot-be-kept"
    assert query(ledger, history) == before


def test_runs_of_any_name_are_planned_written_advanced_and_shown(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    pipeline = pipelines.load(cli.folder / NAME)
    run = Run(dag_id=NASTY, run_id=NASTY)
    (planned,) = flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
    writer = ledgers.Writer(dag_id=NASTY, run_id=NASTY, task_id=NASTY, try_number=1)
    ledgers.publish(ledger, staged(ledger, planned, writer))
    assert flow.advance(ledger, NAME, run) == [planned]
    harmless(cli("batches", NAME))
    harmless(cli("batch", str(planned)))
    found = cli.json("batch", str(planned))
    assert (found["run_id"], found["attempts"][0]["task_id"], found["state"]) == (NASTY, NASTY, "advanced")


def staged(ledger: Ledger, batch_id: int, writer):
    attempt = ledgers.claim(ledger, batch_id, writer=writer)
    ledgers.stage(ledger, attempt)
    return attempt


def test_rejects_that_quote_their_record_write_nothing_to_a_log_or_a_terminal(loading, capfd):
    nasty = json.dumps(NASTY)
    values = [
        f'{{"id": 1, "price": {nasty}}}',
        f'{{"id": {nasty}}}',
        NASTY,
        f"{{{nasty}: 1, {nasty}: 2}}",
        f'{{"id": 2, "name": {nasty}}}',
    ]
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, values * 50)
    transform = """\
        def records(batch):
            for name in filter(None, batch["name"].to_pylist()):
                raise ValueError(name)
            return batch
        """
    loading.declare(topic, transform=transform)
    text = loading.refusal(NeedsOperatorError)
    assert "250 of 250 records were rejected" in text
    assert all(char.isprintable() or char == "\n" for char in text), text
    logged = capfd.readouterr().out
    assert FORGED not in [line.strip() for line in logged.splitlines()]
    assert "\x1b" not in logged

    loading.declare(topic, transform=transform, fail_above=1.0)
    (loaded,) = loading.run()
    assert {value for _, _, value in loading.rejects().values()} == {value.encode() for value in values}
    cli = shell(loading)
    for looks in (["--by-reason"], ["--values", "--limit", "10"], ["--batch", str(loaded), "--reason", "it's"]):
        harmless(cli("rejects", loading.folder.name, *looks))
    document = cli.json("rejects", loading.folder.name, "--reason", 'it\'s "quoted" 50% %s')
    assert document["rejects"]
