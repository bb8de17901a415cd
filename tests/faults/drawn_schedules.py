"""Draw schedules from seeds: the initial state, and the operations that follow.

The weights are chosen so that most schedules load many records, and most faults strike while something is in
progress.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from random import Random

from faults import drawn_requests, unusual
from faults.operations import (
    AddPartitions,
    AllowGaps,
    Arrive,
    Clear,
    Correct,
    CrashServer,
    CreateAgain,
    CutLog,
    Decide,
    Decision,
    DeleteTopic,
    DrawnRequest,
    Duplicate,
    Fault,
    Finish,
    Go,
    GoBack,
    Hold,
    KeepLedger,
    Land,
    Look,
    Lose,
    MarkSuccess,
    Operation,
    PassTime,
    Reprocess,
    RestoreLedger,
    Retain,
    SkipOffsets,
    Start,
    Strike,
    SwapCluster,
    Thaw,
    Until,
)
from faults.races import RACES, Scene
from faults.schedules import Beginning, DeclaredVisits, Schedule
from given_topics.topics import at
from tideline.domain.requests import NewRecords

CROWDED_EVERY = 3
"""One in so many schedules consists of race scenes only."""


OUTSIDE = 3_000_000_000
"""Schedules with an outside sink have seeds from here on."""
STATEFUL = 6_000_000_000
"""Schedules of a pipeline with a state have seeds from here on."""


def schedule(seed: int) -> Schedule:
    """Return the schedule of a seed; the same seed always gives the same schedule.

    Every third schedule consists only of race scenes, in which one process interferes with another. Half of all
    schedules also get unusual operations.
    """
    if seed >= STATEFUL:
        return _with_state(Random(seed), schedule(seed - STATEFUL))
    if seed >= OUTSIDE:
        return _with_outside_sink(Random(seed), schedule(seed - OUTSIDE))
    random = Random(seed)
    if seed % CROWDED_EVERY == 0:
        weights, scenes = zip(*RACES, strict=True)
        drawn = _drawn(random, random.choices(scenes, weights, k=random.randint(5, 9)))
    else:
        drawn = _drawn(random, [_new_run, *random.choices(_SCENES, _WEIGHTS, k=random.randint(1, 6))])
    changes, operations = unusual.added(Random(f"{unusual.SALT} {seed}"), drawn.operations)
    return Schedule(beginning=replace(drawn.beginning, **changes(drawn.beginning)), operations=operations)


def without_restores(drawn: Schedule) -> Schedule:
    """Return the schedule without backups and restores of the ledger, for levels that use one real database
    throughout."""
    kept = tuple(one for one in drawn.operations if not isinstance(one, KeepLedger | RestoreLedger))
    return replace(drawn, operations=kept)


def _with_outside_sink(random: Random, drawn: Schedule) -> Schedule:
    """Return the schedule with an outside sink, and with commits to it that land or are lost at any time.

    In half of the schedules the ledger and the sink are restored to one moment (docs/operating.md), once more than
    drawn. The table has no further key, and belongs to one pipeline.
    """
    operations = list(drawn.operations)
    for _ in range(random.randint(3, 9)):
        ends = random.choice((Land, Land, Lose))(random.randint(0, 3))
        steps = Go(drawn_requests.number(random), random.randint(1, 25))
        place = random.randint(0, len(operations))
        scenes: tuple[list[Operation], ...] = (
            [Hold(random.randint(1, 2))],
            [ends],
            [steps, ends],
            [Hold(1), Finish(-1), steps, ends],
        )
        operations[place:place] = random.choice(scenes)
    apart = Random(f"restores {random.random()}")
    if drawn_requests.flag(apart):
        kept, restored = sorted(apart.randint(0, len(operations)) for _ in range(2))
        operations[restored:restored] = [RestoreLedger()]
        operations[kept:kept] = [KeepLedger()]
    beginning = replace(drawn.beginning, outside=True, shared=False, unique=False)
    return Schedule(beginning=beginning, operations=tuple(operations))


def _with_state(random: Random, drawn: Schedule) -> Schedule:
    """Return the schedule with a pipeline that folds its records into visits, and with rewinds at any time.

    One pipeline has the table: each would fold all records. No row is refused by the table: that fails a batch.
    """
    operations = list(drawn.operations)
    for _ in range(random.randint(2, 6)):
        number = random.choice((None, drawn_requests.number(random), drawn_requests.number(random), -2))
        back = GoBack(number, dry_run=random.random() < 0.15)
        loaded: list[Operation] = [
            Arrive(drawn_requests.number(random), random.randint(1, 9)),
            Start(NewRecords()),
            Finish(-1),
        ]
        ways: tuple[list[Operation], ...] = (
            [Finish(-1)],
            [Finish(-1), *loaded],
            [Finish(-1), *loaded, Decide(Decision.UPKEEP, 0)],
            [_go(random)],
            [replace(_fault(random), process=-1, after=random.randint(0, 40)), Finish(-1)],
            [Start(NewRecords()), Until(-1, 1), Go(-1, random.randint(0, 30)), Finish(-2)],
        )
        place = random.randint(0, len(operations))
        operations[place:place] = [*(loaded if drawn_requests.flag(random) else []), back, *random.choice(ways)]
    visits = DeclaredVisits(
        lateness_minutes=random.choice((0, 0, 3)),
        late=random.choice(("reject", "reject", "process")),
        on_gap=random.choice(("keep", "reset")),
        undo_batches=random.choice((1, 3, 500, 500)),
    )
    beginning = replace(drawn.beginning, visits=visits, shared=False, unique=False, frame=False)
    return Schedule(beginning=beginning, operations=tuple(operations))


def _drawn(random: Random, scenes: Sequence[Scene]) -> Schedule:
    return Schedule(
        beginning=_beginning(random), operations=tuple(chain.from_iterable(draw(random) for draw in scenes))
    )


def _beginning(random: Random) -> Beginning:
    incarnation = random.choice((1, 1, 1, 2))
    starts: tuple[str | datetime, ...] = ("latest", at(6), *["earliest"] * 8)
    return Beginning(
        ends=tuple(random.randint(0, 14) for _ in range(random.choice((1, 2, 2, 3)))),
        incarnation=incarnation,
        delivery="latest_wins" if random.random() < 0.15 else "exactly_once",
        gaps="allowed" if random.random() < (0.7, 0.2)[incarnation % 2] else "refused",
        start=random.choice(starts),
        batch_records=random.choice((4, 6, 10)),
        batch_bytes=random.choice((300, *[None] * 5)),
        run_batches=random.choice((1, 2, 3)),
        events_days=random.choice((1, *[None] * 7)),
        frame=random.random() < 0.2,
    )


def _actor(random: Random) -> int:
    """Return the number of a process: in half of the cases the newest one."""
    return -1 if drawn_requests.flag(random) else drawn_requests.number(random)


def _fault(random: Random) -> Fault:
    strike = random.choice(tuple(Strike))
    # A run has some hundred points from its beginning to its end, and a dozen COMMITs.
    most = 12 if strike in {Strike.COMMIT_KEPT, Strike.COMMIT_LOST} else 110
    return Fault(strike, _actor(random), random.randint(0, most))


def _go(random: Random) -> Go:
    return Go(_actor(random), random.choice((random.randint(1, 15), random.randint(15, 50))))


def _run(random: Random, request: DrawnRequest) -> list[Operation]:
    """Return a run that starts and then, in two of three cases, takes some steps or is struck."""
    then = random.choice((None, Go(-1, random.randint(1, 40)), replace(_fault(random), process=-1)))
    return [Start(request), *([then] if then else [])]


def _new_run(random: Random) -> list[Operation]:
    return [
        Arrive(drawn_requests.number(random), random.randint(1, 9)),
        *_run(random, drawn_requests.new_records(random)),
    ]


def _decision(random: Random) -> list[Operation]:
    then = (
        replace(_fault(random), process=-1, after=random.randint(0, 15))
        if drawn_requests.flag(random, 0.4)
        else _go(random)
    )
    return [Decide(random.choice(tuple(Decision)), drawn_requests.number(random)), then]


def _reprocessed(random: Random) -> list[Operation]:
    request = random.choice(
        (drawn_requests.new_records, drawn_requests.window, drawn_requests.window, drawn_requests.ranges)
    )(random)
    return [Reprocess(drawn_requests.number(random), request)]


def _ends(random: Random) -> tuple[int, ...]:
    return tuple(random.randint(0, 14) for _ in range(random.randint(1, 3)))


_TABLE: tuple[tuple[float, Scene], ...] = (
    (10, _new_run),
    (3, lambda random: _run(random, drawn_requests.window(random))),
    (3, lambda random: _run(random, drawn_requests.ranges(random))),
    (3, lambda random: _run(random, drawn_requests.batch(random))),
    (4, lambda random: _run(random, drawn_requests.rejects(random))),
    (12, lambda random: [_go(random)]),
    (20, lambda random: [_fault(random)]),
    (5, lambda random: [Thaw(drawn_requests.number(random)), _go(random)]),
    (2, lambda random: [Duplicate(drawn_requests.number(random))]),
    (4, lambda random: [Clear(drawn_requests.number(random), random.randrange(3))]),
    (2, _reprocessed),
    (2, lambda random: [MarkSuccess(drawn_requests.number(random))]),
    (
        2,
        lambda random: [
            SkipOffsets(drawn_requests.number(random), drawn_requests.offset(random), random.randint(1, 8))
        ],
    ),
    (6, _decision),
    (
        1,
        lambda random: [
            Look(random.choice((drawn_requests.new_records, drawn_requests.window, drawn_requests.ranges))(random))
        ],
    ),
    (5, lambda random: [Arrive(drawn_requests.number(random), random.randint(1, 9))]),
    (2, lambda random: [Retain(drawn_requests.number(random), random.randint(1, 8))]),
    (1, lambda random: [CutLog(drawn_requests.number(random), random.randint(1, 6))]),
    (1, lambda random: [AddPartitions(random.randint(1, 2), drawn_requests.offset(random))]),
    (1, lambda random: [CreateAgain(_ends(random))]),
    (0.4, lambda random: [DeleteTopic()]),
    (0.6, lambda random: [SwapCluster()]),
    (6, lambda random: [PassTime(random.choice((10, 61, 61, 61, 601, 100_000)))]),
    (1.5, lambda random: [CrashServer()]),
    (1.5, lambda random: [Correct()]),
    (1, lambda random: [AllowGaps()]),
    *RACES,
)
_WEIGHTS, _SCENES = zip(*_TABLE, strict=True)
