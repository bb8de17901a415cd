"""`tideline state` shows what a stateful pipeline keeps, and the states of one key as far back as it can be rewound."""

from datetime import UTC, datetime, timedelta

import pytest

from given_ledger.ledgers import PIPELINE, start_streams
from given_ledger.states import COLUMNS, folded, planned, with_state
from tideline.declaration import pipelines
from tideline.errors import FatalError
from tideline.ledger import rewinds
from tideline.reports import history, states
from tideline.settings import PROJECT

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
TIMER = NOON + timedelta(minutes=30)


@pytest.fixture
def two(ledger, ledger_url, monkeypatch):
    """Fold two batches of one stream: the first one makes two keys, the second one changes one and removes the other."""

    def undeclared(name):
        raise FatalError(f"{name} is not declared any more", next_step="declare it")

    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    monkeypatch.setattr(pipelines, "load_named", undeclared)
    [stream] = start_streams(ledger, 1)
    first, second = (planned(ledger, {stream: piece}) for piece in ((0, 10), (10, 20)))
    rows = [(1, '["ada"]', stream, {"clicks": 1}, TIMER, 3), (1, "[7]", stream, {"clicks": 5}, None, 4)]
    folded(ledger, first, rows, max_times={stream: NOON}, columns=COLUMNS)
    folded(ledger, second, [(1, '["ada"]', stream, {"clicks": 2}, None, 12), (1, "[7]", stream, None, None, 13)])
    return first, second


def test_the_state_of_each_stream_says_how_far_it_is_folded_and_what_it_keeps(two):
    page = states.state(PIPELINE)
    [stream] = page.document["streams"]
    assert (stream["next_offset"], stream["n_keys"], stream["oldest_batch"]) == (20, 1, two[1])
    assert (stream["max_time"], stream["next_timer"]) == (NOON, None)
    assert page.document["n_bytes"] == len('{"clicks": 2}')


def test_a_watermark_that_is_ahead_of_the_clock_is_marked(ledger, ledger_url, monkeypatch):
    """An event of tomorrow was let in while that was allowed. All events of today are late."""
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    stateful = with_state(pipelines.load(PROJECT / "include" / "pipelines" / "impressions"))
    monkeypatch.setattr(pipelines, "load_named", lambda _: stateful)
    one, other = start_streams(ledger, 2)
    now = datetime.now(UTC)
    times = {one: now + timedelta(minutes=55), other: now + timedelta(days=1)}
    folded(ledger, planned(ledger, {one: (0, 10), other: (0, 10)}), max_times=times)
    page = states.state(PIPELINE)
    [_, ahead] = (f"{row['topic']}/{row['partition']}" for row in page.document["streams"])
    assert page.document["ahead"] == [ahead]
    assert page.parts[-1].startswith(f"{ahead}: the newest event is further ahead of the clock than")


def test_a_key_shows_its_state_after_each_batch_that_has_changed_it(two):
    first, second = two
    found = states.key(PIPELINE, "ada").document["history"]
    shown = [(row["batch_id"], row["value"], row["expires_at"], row["kafka_offset"]) for row in found]
    assert shown == [(second, {"clicks": 2}, None, 12), (first, {"clicks": 1}, TIMER, 3)]
    assert all(row["published_at"] for row in found)


def test_a_key_that_is_gone_shows_when_it_went(two):
    first, second = two
    found = states.key(PIPELINE, "7").document["history"]
    assert [(row["batch_id"], row["value"]) for row in found] == [(second, None), (first, {"clicks": 5})]


def test_a_key_is_given_as_its_value_or_as_the_list_of_its_values(two):
    assert states.key(PIPELINE, "ada").document["history"] == states.key(PIPELINE, '["ada"]').document["history"]
    assert states.key(PIPELINE, '{"no": "key"}').document["history"] == []


def test_what_was_pruned_is_shown_as_it_was_before(two, ledger):
    with ledger.transaction():
        ledger.rows("prune_undo", pipeline=PIPELINE, most=1)
    history = states.key(PIPELINE, "ada").document["history"]
    assert [(row["batch_id"], row["value"]) for row in history] == [(two[1], {"clicks": 2}), (None, {"clicks": 1})]


def test_without_a_state_there_is_nothing_to_show(ledger, ledger_url, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    start_streams(ledger, 1)
    assert states.state(PIPELINE).document["streams"] == []


def test_a_pipeline_without_a_state_says_so(ledger, ledger_url, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    monkeypatch.delenv("TIDELINE_PIPELINES", raising=False)
    for page in (states.state("impressions"), states.key("impressions", "ada")):
        [grid] = page.parts
        assert grid.empty == "impressions: no state is kept, because its declaration has no section `state`"


def test_a_batch_shows_what_it_has_folded_and_whether_it_can_be_rewound(ledger, two):
    for batch_id, undo, says in zip(two, ("pruned", "kept"), ("its undo was pruned", "can be rewound"), strict=True):
        rewinds.prune(ledger, PIPELINE, 1)
        page = history.batch(batch_id)
        assert (page.document["n_folded_keys"], page.document["undo"]) == (2, undo)
        assert (
            f"folded: 2 keys have changed, timers have made 0 rows, by version v1 of transform.py; {says}"
            in page.parts[0]
        )
