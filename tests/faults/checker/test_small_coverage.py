"""For small streams the laws of coverage report the same as a check of each single offset."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from faults.checker import coverage
from faults.checker.facts import Batch, Coverage, Event, Found, Range, Stream
from faults.checker.index import index

OFFSETS = range(9)
bounds = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(sorted)
ranges = st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda piece: piece[0] < piece[1])
owners = st.sampled_from([None, "lost", 1, 2, 3])


@st.composite
def streams(draw):
    """Draw up to three published batches in the order of their ids, an owner for each offset, and sometimes one superfluous piece."""
    start, head = draw(bounds)
    loaded = draw(st.lists(ranges, max_size=3))
    by_offset = draw(st.lists(owners, min_size=8, max_size=8))
    pieces = [(offset, offset + 1, owner) for offset, owner in enumerate(by_offset) if owner is not None]
    return (
        start,
        head,
        loaded,
        merged(pieces) + draw(st.lists(st.tuples(ranges, owners.filter(bool)), max_size=1).map(flat)),
    )


def flat(pieces):
    return [(*piece, owner) for piece, owner in pieces]


def merged(pieces):
    """Merge neighbouring pieces of one owner."""
    found = []
    for start, end, owner in pieces:
        if found and found[-1][1:] == (start, owner):
            found[-1] = (found[-1][0], end, owner)
        else:
            found.append((start, end, owner))
    return found


def looked_up(start, head, loaded, pieces):
    numbers = range(1, len(loaded) + 1)
    return index(
        Found(
            streams=[Stream(1, "c", "ads", UUID(int=1), 0, start, head)],
            batches=[Batch(number, "replay", "advanced", 1, None) for number in numbers],
            ranges=[Range(number, 1, *piece, reserves=False) for number, piece in enumerate(loaded, 1)],
            coverage=[
                Coverage(1, a, b, hole=owner) if owner == "lost" else Coverage(1, a, b, batch_id=owner)
                for a, b, owner in pieces
            ],
            attempts=[],
            events=[Event(number, "publish", batch_id=number, to_state="published") for number in numbers],
            outbox=[],
            rows=None,
            rejects=None,
        )
    )


@given(streams())
@settings(max_examples=300)
def test_gaps_overlaps_and_owners_are_found_wherever_there_are_any(stream):
    start, head, loaded, pieces = stream
    found = looked_up(*stream)
    owning = {at: [owner for a, b, owner in pieces if a <= at < b] for at in OFFSETS}
    publishing = {at: [number for number, (a, b) in enumerate(loaded, 1) if a <= at < b] for at in OFFSETS}
    free = [at for at in range(start, head) if not owning[at]]
    assert any(coverage.head_beyond_coverage(found)) == bool(start < head and not owning[head - 1])
    assert any(coverage.gap(found)) == any(any(a < head and a > at for a, _, _ in pieces) for at in free)
    assert any(coverage.overlap(found)) == any(len(owner) > 1 for owner in owning.values())
    assert any(coverage.owner(found)) == any(
        owner != "lost" and not all(owner in publishing[at] for at in range(a, b)) for a, b, owner in pieces
    )
    if any(len(owner) > 1 for owner in owning.values()):
        return  # with two owners either may be taken
    laws = {violation.law for violation in coverage.forgotten_and_usurped(found)}
    outside = [at for at in OFFSETS if publishing[at] and not start <= at < head]
    assert ("forgotten" in laws) == any(not owning[at] for at in outside)
    last = {at: publishing[at][-1] for at in OFFSETS if publishing[at] and owning[at]}
    assert ("usurped" in laws) == any(
        owning[at][0] not in range(number, len(loaded) + 1) for at, number in last.items()
    )
