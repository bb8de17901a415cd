"""The coverage map says of every offset what the ledger says of it; and a cell shows the worst that it holds."""

import random

import pytest

import ledgers
from ledger_queries import query
from rejected_records import reject
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.streams import Stream
from tideline.ledger import decisions, queries, reservations

WORST_FIRST = ("missing", "lost", "skipped", "rewound", "open", "unread", "rejected", "empty", "loaded")
END = 400


@pytest.fixture
def history(ledger):
    """Load, reject, skip, lose, leave open and leave unread stretches of random lengths; return stream and what each offset is."""
    chance = random.Random(7)
    (stream_id,) = ledgers.start_streams(ledger, 1)
    truth = ["unread"] * END
    at = 0
    for what in ["loaded", "rejected", "skipped", "loaded", "lost", "rejected", "loaded"] * 3:
        end = at + chance.randrange(1, 15)
        if what in ("skipped", "lost"):
            _leave_hole(ledger, stream_id, at, end, what)
        else:
            _load(ledger, stream_id, at, end, n_rejected=1 if what == "rejected" else 0)
        truth[at:end] = [what] * (end - at)
        at = end
    flow.advance(ledger, ledgers.PIPELINE, ledgers.RUN)
    ledgers.plan(ledger, {stream_id: (at + 5, at + 12)})
    truth[at + 5 : at + 12] = ["open"] * 7
    return stream_id, truth


def _load(ledger, stream_id, start, end, *, n_rejected):
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream_id: (start, end)}))
    ledgers.stage(ledger, attempt)
    reject(ledger, attempt, stream_id, *range(start, start + n_rejected))
    ledgers.publish(ledger, attempt, written={stream_id: end - start - n_rejected})


def _leave_hole(ledger, stream_id, start, end, what):
    with ledger.transaction():
        reservations.lock_pipeline(ledger, ledgers.PIPELINE)
        decisions.set_reason(ledger, "a test")
        stream: Stream = next(s for s in reservations.streams(ledger, ledgers.PIPELINE) if s.stream_id == stream_id)
        decisions.leave_hole(ledger, stream, OffsetRange(start, end), what, reason="a test")


def cells(ledger, stream_id, start, end, n_cells):
    found = queries.cells(ledger, ledgers.PIPELINE, {stream_id: (start, end)}, n_cells=n_cells)
    ledger.connection.rollback()
    return found


def test_with_a_cell_for_each_offset_the_map_is_the_truth(ledger, history):
    stream_id, truth = history
    shown = []
    for cell in cells(ledger, stream_id, 0, END, END):
        assert cell["start_offset"] == len(shown)
        shown += [cell["what"]] * (cell["end_offset"] - cell["start_offset"])
    assert shown == truth


@pytest.mark.parametrize("n_cells", [1, 3, 7, 64, 100, 399, 1_000])
@pytest.mark.parametrize(("start", "end"), [(0, END), (13, 257), (5, 6)])
def test_cells_tile_the_stretch_and_show_the_worst_they_hold(ledger, history, n_cells, start, end):
    stream_id, truth = history
    length, n = end - start, min(n_cells, end - start)
    expected = []
    for cell in range(n):
        first, last = (start + (edge * length + n - 1) // n for edge in (cell, cell + 1))
        worst = min(truth[first:last], key=WORST_FIRST.index)
        if expected and expected[-1][2] == worst:
            first = expected.pop()[0]
        expected.append((first, last, worst))
    found = cells(ledger, stream_id, start, end, n_cells)
    assert [(cell["start_offset"], cell["end_offset"], cell["what"]) for cell in found] == expected


def test_offsets_below_the_head_that_nothing_accounts_for_are_missing(ledger, history):
    stream_id, truth = history
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM tideline.coverage WHERE lower(offsets) = 0")
    lost = truth.index("rejected")
    first, *_ = cells(ledger, stream_id, 0, END, END)
    assert (first["start_offset"], first["end_offset"], first["what"]) == (0, lost, "missing")


def test_the_pieces_of_a_stretch_are_the_batches_and_holes_that_account_for_it(ledger, history):
    stream_id, truth = history
    pieces = queries.stretch(ledger, stream_id, 0, END, limit=100)
    assert [piece["start_offset"] for piece in pieces] == sorted(piece["start_offset"] for piece in pieces)
    assert sum(piece["end_offset"] - piece["start_offset"] for piece in pieces) == END - truth.count("unread")
    assert {piece["hole"] for piece in pieces} == {None, "skipped", "lost"}
    assert pieces[-1]["state"] == "planned"


def test_rejects_of_a_cell_are_those_of_its_batches(ledger, history):
    stream_id, _ = history
    ((expected,),) = query(ledger, "SELECT sum(n_rejected)::int FROM tideline.batch_range")
    assert sum(cell["n_rejected"] for cell in cells(ledger, stream_id, 0, END, END)) == pytest.approx(expected)
