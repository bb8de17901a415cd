"""The coverage map says of every offset what the ledger says of it; and a cell shows the worst that it holds."""

import random

import pytest

from given_ledger import ledgers
from given_ledger.decisions import reject
from given_ledger.ledgers import query
from tideline import flow
from tideline.ledger import queries
from tideline.web import cells as web

WORST_FIRST = ("missing", "lost", "skipped", "rewound", "open", "unread", "rejected", "empty", "loaded")
PALE, MIDDLE, DARK = 1, 2, 3
END = 400


@pytest.fixture
def history(ledger):
    """Load, reject, skip, lose, leave open and leave unread stretches of random lengths; return stream, and what and how dark each offset is."""
    chance = random.Random(7)
    (stream_id,) = ledgers.start_streams(ledger, 1)
    truth = [("unread", 0)] * END
    at = 0
    for what in ["loaded", "rejected", "skipped", "loaded", "lost", "rejected", "loaded"] * 3:
        end = at + chance.randrange(1, 15)
        if what in ("skipped", "lost"):
            ledgers.leave_hole(ledger, stream_id, at, end, what)
        else:
            _load(ledger, stream_id, at, end, n_rejected=1 if what == "rejected" else 0)
        truth[at:end] = [(what, _shade(1 / (end - at)) if what == "rejected" else 0)] * (end - at)
        at = end
    flow.advance(ledger, ledgers.PIPELINE, ledgers.RUN)
    ledgers.plan(ledger, {stream_id: (at + 5, at + 12)})
    truth[at + 5 : at + 12] = [("open", 0)] * 7
    return stream_id, truth


def _shade(share):
    return DARK if share > 0.3 else MIDDLE if share > 0.03 else PALE


def _worst(offset):
    what, shade = offset
    return WORST_FIRST.index(what), -shade


def _load(ledger, stream_id, start, end, *, n_rejected):
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream_id: (start, end)}))
    ledgers.stage(ledger, attempt)
    reject(ledger, attempt, stream_id, *range(start, start + n_rejected))
    ledgers.publish(ledger, attempt, written={stream_id: end - start - n_rejected})


def found(ledger, stream_id, start, end, n_cells):
    (row,) = queries.cells(ledger, ledgers.PIPELINE, {stream_id: (start, end)}, n_cells=n_cells)
    ledger.connection.rollback()
    return row


def shown(ledger, stream_id, start, end, n_cells):
    """Return (start, end, what, shade) of each cell."""
    cells = web.cells(found(ledger, stream_id, start, end, n_cells), start, end)
    return [(cell.start, cell.end, cell.what, cell.shade) for cell in cells]


def test_with_a_cell_for_each_offset_the_map_is_the_truth(ledger, history):
    stream_id, truth = history
    offsets = []
    for start, end, *what in shown(ledger, stream_id, 0, END, END):
        assert start == len(offsets)
        offsets += [tuple(what)] * (end - start)
    assert offsets == truth


def test_cells_tile_the_stretch_and_show_the_worst_they_hold(ledger, history):
    stream_id, truth = history
    for start, end in ((0, END), (13, 257), (5, 6)):
        for n_cells in (1, 3, 7, 64, 100, 399, 1_000):
            assert shown(ledger, stream_id, start, end, n_cells) == expected(truth, start, end, n_cells)


def expected(truth, start, end, n_cells):
    """Return the cells of a stretch."""
    length, n = end - start, min(n_cells, end - start)
    cells = []
    for cell in range(n):
        first, last = (start + (edge * length + n - 1) // n for edge in (cell, cell + 1))
        worst = min(truth[first:last], key=_worst)
        if cells and cells[-1][2:] == worst:
            first = cells.pop()[0]
        cells.append((first, last, *worst))
    return cells


def test_the_counts_are_those_of_offsets_and_not_of_cells(ledger, history):
    stream_id, truth = history
    for n_cells in (1, 7, 100):
        row = found(ledger, stream_id, 0, END, n_cells)
        for what in ("lost", "skipped", "open", "unread", "missing"):
            assert row[f"n_{what}"] == sum(one == what for one, _ in truth), (what, n_cells)


def test_a_hundredth_of_rejects_and_nothing_but_rejects_are_two_cells(ledger):
    (stream_id,) = ledgers.start_streams(ledger, 1)
    _load(ledger, stream_id, 0, 100, n_rejected=1)
    _load(ledger, stream_id, 100, 200, n_rejected=100)
    assert shown(ledger, stream_id, 0, 200, 2) == [(0, 100, "rejected", PALE), (100, 200, "rejected", DARK)]


def test_an_hour_of_rejects_is_as_dark_in_a_year_as_in_a_day(ledger):
    (stream_id,) = ledgers.start_streams(ledger, 1)
    _load(ledger, stream_id, 0, 990, n_rejected=1)
    _load(ledger, stream_id, 990, 1_000, n_rejected=10)
    assert shown(ledger, stream_id, 0, 1_000, 1) == [(0, 1_000, "rejected", DARK)]


def test_offsets_below_the_head_that_nothing_accounts_for_are_missing(ledger, history):
    stream_id, truth = history
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM tideline.coverage WHERE lower(offsets) = 0")
    gone = next(at for at, (what, _) in enumerate(truth) if what == "rejected")
    first, *_ = shown(ledger, stream_id, 0, END, END)
    assert first == (0, gone, "missing", 0)


def test_what_is_taken_above_the_head_does_not_hide_what_is_missing_below_it(ledger, history):
    stream_id, truth = history
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM tideline.coverage WHERE lower(offsets) = 0")
    gone = next(at for at, (what, _) in enumerate(truth) if what == "rejected")
    assert gone < 7 + 1  # the open batch has seven offsets
    whole = found(ledger, stream_id, 0, END, 1)
    assert (whole["whats"], whole["n_missing"]) == (["missing"], gone)


def test_the_pieces_of_a_stretch_are_the_batches_and_holes_that_account_for_it(ledger, history):
    stream_id, truth = history
    pieces = queries.stretch(ledger, stream_id, 0, END, limit=100)
    assert [piece["start_offset"] for piece in pieces] == sorted(piece["start_offset"] for piece in pieces)
    assert sum(piece["end_offset"] - piece["start_offset"] for piece in pieces) == END - truth.count(("unread", 0))
    assert {piece["hole"] for piece in pieces} == {None, "skipped", "lost"}
    assert pieces[-1]["state"] == "planned"


def test_rejects_of_the_cells_are_those_of_their_batches(ledger, history):
    stream_id, _ = history
    ((n_rejected,),) = query(ledger, "SELECT sum(n_rejected)::int FROM tideline.batch_range")
    for n_cells in (1, END):
        assert found(ledger, stream_id, 0, END, n_cells)["n_rejected"] == n_rejected
