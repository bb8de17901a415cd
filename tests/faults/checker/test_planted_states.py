"""The checker reports every law of states that is violated: each test plants one violation among the facts of a pipeline with a state."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from faults.checker import violations
from faults.checker.facts import Coverage, Folded, Found, Undo
from faults.operations import Arrive, Finish, GoBack, SkipOffsets, Start
from faults.schedules import Beginning, DeclaredVisits, Schedule
from faults.simulation.simulating import facts_at_the_end, folded_by, simulate_in
from faults.simulation.tally import Tally
from faults.simulation.world import World
from tideline.domain.requests import NewRecords

BEGINNING = Beginning(
    ends=(5, 4),
    incarnation=1,
    delivery="exactly_once",
    gaps="allowed",
    start="earliest",
    batch_records=4,
    run_batches=20,
    visits=DeclaredVisits(lateness_minutes=3, on_gap="keep"),
)
LOAD = (Start(NewRecords()), Finish(-1))
OPERATIONS = (
    *LOAD, Arrive(0, 9), *LOAD, GoBack(2), Finish(-1), *LOAD, Arrive(0, 9), Arrive(1, 7), SkipOffsets(0, 14, 2), Finish(-1), *LOAD,
)  # fmt: skip


@pytest.fixture(scope="module")
def folded():
    """Provide what the checker finds after batches were folded, rewound and folded again, with offsets that were skipped."""
    world = World(BEGINNING, Tally())
    assert simulate_in(world, Schedule(beginning=BEGINNING, operations=OPERATIONS)) == []
    [(pipeline, found, truth)] = facts_at_the_end(world)
    return found, truth, folded_by(pipeline)


def standing(found: Found) -> list[Folded]:
    return [one for one in found.folded if one.undo != "applied"]


def refolded(found: Found, **changes: Any) -> Found:
    """Change the newest batch that is folded."""
    *rest, newest = found.folded
    return replace(found, folded=[*rest, newest._replace(**changes)])


def without_a_rewound_batch(found: Found) -> Found:
    gone = next(one for one in found.folded if one.undo == "applied")
    return replace(found, folded=[one for one in found.folded if one is not gone])


def swapped(found: Found) -> Found:
    """Let the two oldest batches that are folded change their places."""
    one, other = standing(found)[:2]
    turned = {one.batch_id: one._replace(seq=other.seq), other.batch_id: other._replace(seq=one.seq)}
    return replace(
        found, folded=sorted((turned.get(row.batch_id, row) for row in found.folded), key=lambda row: row.seq)
    )


def left_unloaded(found: Found) -> Found:
    """Let a rewind have left the offsets that were skipped."""
    holes = [replace(piece, hole="rewound") if piece.hole == "skipped" else piece for piece in found.coverage]
    return replace(found, coverage=holes)


def left_at_the_end(found: Found) -> Found:
    piece = max(found.coverage, key=lambda piece: (piece.stream_id, piece.end))
    hole = Coverage(piece.stream_id, piece.end, piece.end + 5, hole="rewound", reason="planted", decided_by="planted")
    return replace(found, coverage=[*found.coverage, hole])


def moved(found: Found, **changes: Any) -> Found:
    """Change the position of the first stream."""
    stream_id = min(found.positions)
    return replace(found, positions={**found.positions, stream_id: found.positions[stream_id]._replace(**changes)})


def aged(found: Found) -> Found:
    """Let the largest event time of the first stream go back by an hour."""
    at = found.positions[min(found.positions)].max_time
    return moved(found, max_time=at - timedelta(hours=1))


def undone(found: Found, change: Callable[[Undo], Undo]) -> Found:
    """Change the undo of the newest batch that has undo of states."""
    batch_id = max(one for one, undo in found.undo.items() if undo.states)
    return replace(found, undo={**found.undo, batch_id: change(found.undo[batch_id])})


def restored_wrong(undo: Undo) -> Undo:
    key, before = next((key, before) for key, before in undo.states.items() if before is not None)
    value = {**before.value, "records": before.value["records"] + 1}
    return replace(undo, states={**undo.states, key: before._replace(value=value)})


def with_state(found: Found, change: Callable[[Any], Mapping[str, Any]]) -> Found:
    """Change the state of a key that the newest batch has changed."""
    key = max(found.states, key=lambda key: found.states[key].batch_id)
    return replace(found, states={**found.states, key: found.states[key]._replace(**change(found.states[key]))})


def without_the_first_row(found: Found) -> Found:
    return replace(found, rows=lambda stream: iter(list(found.rows(stream))[1:]))


def with_a_row_twice(found: Found) -> Found:
    def rows(stream):
        there = list(found.rows(stream))
        return iter([*there[:1], *there])

    return replace(found, rows=rows)


STATEFUL: dict[str, tuple[str, set[str], Callable[[Found], Found]]] = {
    "a batch that is folded and is none": (
        "folded", set(), lambda found: replace(found, folded=[*found.folded, Folded(900, len(found.folded) + 1, "one", 0, 0, "applied")]),
    ),
    "a published batch that is not folded": ("folded", set(), without_a_rewound_batch),
    "a gap in the numbers of folded batches": ("folded", set(), lambda found: refolded(found, seq=found.folded[-1].seq + 1)),
    "batches in another order": ("folded in order", {"undo", "fold", "watermark", "miscounted"}, swapped),
    "offsets that a rewind has left behind": ("folded in order", {"reloaded"}, left_unloaded),
    "a position beyond what is folded": ("position", {"fold"}, lambda found: moved(found, next_offset=900)),
    "a position of another batch": ("position", {"fold", "undo"}, lambda found: moved(found, batch_id=900)),
    "a key without undo": ("undo", set(), lambda found: undone(found, lambda undo: replace(undo, states=dict([*undo.states.items()][1:])))),
    "a stream without undo": ("undo", set(), lambda found: undone(found, lambda undo: replace(undo, positions={}))),
    "undo that leads to another state": ("undo", set(), lambda found: undone(found, restored_wrong)),
    "undo of no batch": ("undo", set(), lambda found: replace(found, undo={**found.undo, 900: Undo({}, {})})),
    "an event time that goes back": ("watermark", {"fold"}, aged),
    "another value": ("fold", set(), lambda found: with_state(found, lambda state: {"value": {**state.value, "records": 900}})),
    "another timer": ("fold", set(), lambda found: with_state(found, lambda state: {"expires_at": None})),
    "a state of an earlier batch": ("fold", {"undo"}, lambda found: with_state(found, lambda state: {"batch_id": state.batch_id - 1})),
    "a state that is lost": ("fold", set(), lambda found: replace(found, states=dict([*found.states.items()][1:]))),
    "a row that is lost": ("fold", set(), without_the_first_row),
    "a row that is there twice": ("fold", set(), with_a_row_twice),
    "a timer that is counted twice": ("miscounted", set(), lambda found: refolded(found, n_expired=found.folded[-1].n_expired + 1)),
    "offsets that are not loaded again": ("reloaded", set(), left_at_the_end),
}  # fmt: skip
"""Law, other laws that are violated by the same, and what plants it."""


@pytest.mark.parametrize(("law", "also", "plant"), STATEFUL.values(), ids=STATEFUL)
def test_a_law_of_states_that_is_broken_is_named_and_no_other(folded, law, also, plant):
    found, truth, visits = folded
    assert violations(found, truth, quiet=True, visits=visits) == []
    assert {one.law for one in violations(plant(found), truth, quiet=True, visits=visits)} == {law, *also}
