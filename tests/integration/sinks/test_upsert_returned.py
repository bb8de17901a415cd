"""A topic that was created again, and then the first one comes back: which record of a key is newer is not guessed."""

import pytest

from loads.upserts import Rec, Scene, scene, started
from tideline.domain.states import BatchKind
from tideline.domain.streams import RETURNED
from tideline.errors import FatalError
from tideline.ledger import decisions, reservations

FIRST = [
    Rec(1, "first", rank=1),
    Rec(2, "first", rank=1),
    Rec(1, "back", rank=3),
    Rec(2, "back", rank=3),
    Rec(3, "back"),
]
BETWEEN = [Rec(1, "between", rank=2), Rec(4, "between")]


def retire(made: Scene, stream_id: int) -> None:
    with made.ledger.transaction():
        (stream,) = [one for one in reservations.streams(made.ledger, made.pipeline) if one.stream_id == stream_id]
        decisions.retire(made.ledger, stream)


def bring_back(made: Scene, stream_id: int) -> None:
    with made.ledger.transaction():
        (stream,) = [one for one in reservations.streams(made.ledger, made.pipeline) if one.stream_id == stream_id]
        decisions.bring_back(made.ledger, stream, RETURNED)
        decisions.resume(made.ledger, stream, accepted_end=None)


def returned(ledger, *, between=BETWEEN, ordered=False) -> tuple[Scene, int, int]:
    """Load two records of the first topic, all of the one in between, and give that up for the first one again."""
    made = scene(ledger, [[FIRST], [between]], ordered=ordered)
    first, second = made.log
    made.load(made.plan({first: (0, 2)}))
    made.advance()
    retire(made, first)
    made.load(made.plan({second: (0, len(between))}))
    made.advance()
    retire(made, second)
    bring_back(made, first)
    return made, first, second


def test_records_of_a_topic_that_has_come_back_are_not_compared_with_those_of_the_topic_in_between(ledger):
    made, first, _ = returned(ledger)
    before = made.table()
    with pytest.raises(
        FatalError, match=r"was given up for the other one, and has come back(.*\n)*.*declare sink\.order"
    ):
        made.load(made.plan({first: (2, 3)}))
    assert made.table() == before == {1: "between", 2: "first", 4: "between"}


def test_neither_are_they_with_its_tombstones(ledger):
    made, first, _ = returned(ledger, between=[Rec(1, None)])
    with pytest.raises(FatalError, match="has come back"):
        made.load(made.plan({first: (2, 3)}))


def test_a_key_of_the_returned_topic_alone_goes_on(ledger):
    made, first, _ = returned(ledger)
    made.load(made.plan({first: (3, 5)}))
    assert made.table() == {1: "between", 2: "back", 3: "back", 4: "between"}


def test_what_was_read_before_the_return_is_older_as_ever(ledger):
    made, first, _ = returned(ledger)
    made.load(made.plan({first: (0, 2)}, BatchKind.REPLAY))
    assert made.table() == {1: "between", 2: "first", 4: "between"}


def test_columns_that_say_the_order_are_compared_over_a_return(ledger):
    made, first, _ = returned(ledger, ordered=True)
    made.load(made.plan({first: (2, 5)}))
    assert made.table() == made.reduced() == {1: "back", 2: "back", 3: "back", 4: "between"}


def test_a_topic_that_is_created_after_the_return_is_newer(ledger):
    made, first, _ = returned(ledger, between=[Rec(4, "between")])
    made.load(made.plan({first: (2, 3)}))
    made.advance()
    ((later, log),) = started(ledger, made.pipeline, [[Rec(1, "later")]]).items()
    made.log = {**made.log, later: log}
    made.load(made.plan({later: (0, 1)}))
    assert made.table()[1] == "later"
