"""Race scenes: while a batch is written, its writer is presumed dead, another writer claims the batch, or what the
writer reads changes.

Each scene leads up to such a moment. The rest of a schedule is drawn at random.
"""

from collections.abc import Callable, Sequence
from random import Random

from faults import drawn_requests
from faults.operations import (
    Arrive,
    Clear,
    Correct,
    CrashServer,
    CreateAgain,
    CutLog,
    Decide,
    Decision,
    DrawnRequest,
    Duplicate,
    Fault,
    Finish,
    Go,
    Look,
    MarkSuccess,
    Operation,
    PassTime,
    Retain,
    SkipOffsets,
    Start,
    Strike,
    Thaw,
    Until,
)
from tideline.domain.requests import NewRecords

Scene = Callable[[Random], Sequence[Operation]]
_WRITE, _ADVANCE = 1, 2
"""Numbers of the tasks `write` and `advance`."""
_OF_PUBLISH = 4
"""Index of the COMMIT that publishes the first batch of a writer, counted from the start of the writer."""


def _orphan(random: Random) -> list[Operation]:
    """A writer that is presumed dead still runs: it publishes while its next try is in the middle of its work."""
    strike = random.choice((Strike.LOSE, Strike.FREEZE))
    thaw = [Thaw(-1)] if strike is Strike.FREEZE else []
    return [*_writing(random), _struck(random, strike), *thaw, Go(-2, random.randint(0, 25)), Finish(-1), Finish(-1)]


def _adopted(random: Random) -> list[Operation]:
    """A writer is dead, silent or alive when the next run adopts its batches."""
    strike = random.choice((Strike.FREEZE, Strike.LOSE, Strike.KILL))
    passed = [PassTime(random.choice((10, 61)))] if drawn_requests.flag(random, 0.7) else []
    return [*_writing(random), _struck(random, strike), *passed, Start(NewRecords()), Finish(-1), Thaw(-1), Finish(-1)]


def _given_up(random: Random) -> list[Operation]:
    """A writer is silent, and its batch is abandoned or expired before the writer continues."""
    seconds, decision = random.choice(((10, Decision.ABANDON), (61, Decision.ABANDON), (601, Decision.UPKEEP)))
    return [
        *_writing(random),
        _struck(random, Strike.FREEZE),
        PassTime(seconds),
        Decide(decision, -1),
        Finish(-1),
        Thaw(-1),
        Finish(-1),
        Finish(-1),
    ]


def _exhausted(random: Random) -> list[Operation]:
    """Every try of a write fails, and the next run adopts the batch that was left open."""
    strikes = random.choices((Strike.KILL, Strike.ERROR, Strike.CUT), k=3)
    return [*_writing(random), *(_struck(random, strike) for strike in strikes), Start(NewRecords()), Until(-1, _WRITE)]


def _unknown_commit(random: Random) -> list[Operation]:
    """The answer to one of a writer's COMMITs is lost."""
    strike = random.choice((Strike.COMMIT_KEPT, Strike.COMMIT_LOST))
    number = random.choice((_OF_PUBLISH, _OF_PUBLISH, random.randint(0, 9)))
    return [*_writing(random), Fault(strike, -1, number), Finish(-1)]


def _between(random: Random) -> list[Operation]:
    """What a writer reads, or what it has staged, changes in the middle of the write."""
    happening = random.choice((
        [CreateAgain((8, 8))],
        [CreateAgain((8, 8))],
        [Retain(drawn_requests.number(random), random.randint(1, 8))],
        [CutLog(drawn_requests.number(random), random.randint(1, 4))],
        [CrashServer()],
        [CrashServer()],
        [Duplicate(-1), Finish(-1)],
        [Clear(-1, _WRITE)],
        [MarkSuccess(-1)],
        [SkipOffsets(drawn_requests.number(random), drawn_requests.offset(random), random.randint(1, 8)), Finish(-1)],
        [Decide(random.choice(tuple(Decision)), -1), Finish(-1)],
        [Arrive(drawn_requests.number(random), 4), Start(NewRecords()), Finish(-1)],
    ))  # fmt: skip
    return [*_writing(random), Go(-1, _part_of_a_write(random)), *happening, Finish(-1)]


def _replays(random: Random) -> list[Operation]:
    """Two replays of loaded records run at the same time."""
    return [*_loaded(random), *_together(random, drawn_requests.loaded(random), drawn_requests.loaded(random))]


def _redriven(random: Random) -> list[Operation]:
    """Rejects are re-driven while some of their records are replayed or re-driven by another run."""
    rival = random.choice((drawn_requests.loaded(random), drawn_requests.rejects(random)))
    correct = [Correct()] if drawn_requests.flag(random, 0.3) else []
    return [*_loaded(random), *correct, *_together(random, drawn_requests.rejects(random), rival)]


def _stopped(random: Random) -> list[Operation]:
    """A stream stops, and an operator decides."""
    happening = random.choice(
        (
            CreateAgain((9, 5)),
            Retain(drawn_requests.number(random), 9),
            Retain(drawn_requests.number(random), 40),
            CutLog(drawn_requests.number(random), 4),
        )
    )
    decision = Decision.ADOPT if isinstance(happening, CreateAgain) else Decision.ACCEPT_ALL
    return [
        *_writing(random),
        Go(-1, random.randint(0, 50)),
        happening,
        Start(NewRecords()),
        Finish(-1),
        Decide(decision, 0),
        Finish(-1),
        Start(random.choice((NewRecords(), drawn_requests.rejects(random)))),
        Finish(-1),
    ]


def _planners(random: Random) -> list[Operation]:
    """Two runs plan at the same time."""
    return [
        Arrive(drawn_requests.number(random), 5),
        Start(_request(random)),
        Go(-1, _part_of_a_plan(random)),
        Start(_request(random)),
        Go(-1, _part_of_a_plan(random)),
        Finish(-2),
        Finish(-1),
    ]


def _two_advances(random: Random) -> list[Operation]:
    """Several batches are published, and two processes advance the heads over them at the same time."""
    place = drawn_requests.number(random)
    return [
        Arrive(place, 9),
        Arrive(place, 9),
        Start(NewRecords()),
        Until(-1, _ADVANCE),
        Duplicate(-1),
        Go(-1, random.randint(1, 8)),
        Finish(-2),
        Finish(-1),
        Finish(-1),
    ]


def _dry_run(random: Random) -> list[Operation]:
    """A dry run takes place while a plan is in progress."""
    first = random.choice((-1, -2))
    return [
        Arrive(drawn_requests.number(random), 5),
        Start(_request(random)),
        Go(-1, random.randint(1, 20)),
        Look(NewRecords()),
        Go(-1, random.randint(1, 20)),
        Finish(first),
        Finish(-3 - first),
    ]


def _decided(random: Random) -> list[Operation]:
    """Operators decide about loaded records, and about what they have decided before."""
    place, start = drawn_requests.number(random), random.randint(4, 20)
    skips = [SkipOffsets(place, start + shift, 4) for shift in (0, random.randint(0, 3))]
    abandons = [Decide(Decision.ABANDON, -1)]
    decisions = random.choice((skips, abandons))
    return [*_loaded(random), Arrive(place, 6), *(step for decision in decisions for step in (decision, Finish(-1)))]


def _request(random: Random) -> DrawnRequest:
    return random.choice(
        (NewRecords(), NewRecords(), NewRecords(), drawn_requests.loaded(random), drawn_requests.window(random))
    )


def _writing(random: Random) -> list[Operation]:
    """A run that is about to begin its task `write`."""
    return [Arrive(drawn_requests.number(random), random.randint(1, 9)), Start(_request(random)), Until(-1, _WRITE)]


def _part_of_a_write(random: Random) -> int:
    """Draw a number of steps that ends within a write.

    Steps of the simulation are transactions, and a batch takes a dozen of them. Real processes count statements,
    which are four times as many.
    """
    return random.choice((random.randint(0, 15), random.randint(15, 50)))


def _part_of_a_plan(random: Random) -> int:
    """Draw a number of steps that ends within a plan. It begins with an advance, which takes real processes eight statements."""
    return random.choice((random.randint(1, 8), random.randint(8, 24)))


def _struck(random: Random, strike: Strike) -> Fault:
    """Strike the newest process while it writes its first batch."""
    return Fault(strike, -1, random.randint(0, 45))


def _loaded(random: Random) -> list[Operation]:
    """A run from start to finish."""
    return [Arrive(drawn_requests.number(random), random.randint(1, 9)), Start(NewRecords()), Finish(-1)]


def _together(random: Random, first: DrawnRequest, second: DrawnRequest) -> list[Operation]:
    """Two runs; the second one runs to its end while the first one is writing."""
    return [
        Start(first),
        Until(-1, _WRITE),
        Go(-1, _part_of_a_write(random)),
        Start(second),
        Finish(-1),
        Finish(-1),
    ]


RACES: tuple[tuple[float, Scene], ...] = (
    (8, _orphan),
    (6, _adopted),
    (6, _given_up),
    (4, _exhausted),
    (8, _unknown_commit),
    (10, _between),
    (5, _replays),
    (5, _redriven),
    (7, _stopped),
    (5, _planners),
    (6, _two_advances),
    (5, _dry_run),
    (8, _decided),
)
"""The scenes with their weights."""
