"""What a stateful pipeline has folded does not depend on cuts, crashes and rewinds. Each test plays many small schedules."""

from dataclasses import replace
from random import Random

import pytest

from faults.actions import Rewind
from faults.operations import Arrive, Correct, Fault, Finish, GoBack, SkipOffsets, Start, Strike, Until
from faults.records import ODD_CLOCKS
from faults.recovery import SCHEDULED, finish, found_nothing
from faults.schedule_runner import Play
from faults.schedules import Beginning, DeclaredVisits, Schedule
from faults.simulation.simulating import final_problems, simulate, simulate_in
from faults.simulation.tally import Tally
from faults.simulation.world import World
from tideline.domain.requests import NewRecords

BEGINNING = Beginning(
    ends=(5, 4),
    incarnation=ODD_CLOCKS + 2,
    delivery="exactly_once",
    gaps="allowed",
    start="earliest",
    batch_records=10,
    run_batches=20,
    visits=DeclaredVisits(lateness_minutes=3, on_gap="reset"),
)
"""Late records, records out of order, and a user who sends to several partitions."""
LOADED = (Start(NewRecords()), Finish(-1), Arrive(0, 5), Arrive(1, 4))
CRASHING = {
    "write": (*LOADED, Start(NewRecords()), Until(-1, 1)),
    "rewind": (*LOADED, Start(NewRecords()), Finish(-1), GoBack(None)),
    "write after a rewind": (*LOADED, GoBack(None), Finish(-1), Start(NewRecords()), Until(-1, 1)),
}
EVERYWHERE = {Strike.KILL, Strike.COMMIT_KEPT, Strike.COMMIT_LOST}
OTHERS_OF = 12
"""Other strikes are tried at one of so many points; the next commit tries others."""


@pytest.mark.parametrize("crashing", CRASHING.values(), ids=CRASHING)
@pytest.mark.parametrize("strike", Strike)
def test_a_strike_at_any_point_of_a_stateful_process_changes_no_fold(crashing, strike, first_seed):
    step = 1 if strike in EVERYWHERE else OTHERS_OF
    struck, n_struck, after = True, 0, first_seed % step
    while struck:
        tally = Tally()
        operations = (*crashing, Fault(strike, -1, after), Finish(-1))
        assert simulate(Schedule(beginning=BEGINNING, operations=operations), tally) == [], after
        struck = tally.crashes > 0
        n_struck, after = n_struck + struck, after + step
    assert n_struck >= (30 if strike is Strike.KILL else 1)


def tables(world):
    """Return what a reader sees, without the numbers of batches, and how far each stream is."""
    db = world.database
    [output] = db.outputs.values()
    return (
        {key: row.values for key, row in output.rows.items()},
        {place: reject[3:9] for place, reject in db.rejects.items()},
        {key: row[2:6] for key, row in db.states.items()},
        {stream_id: (position.next_offset, position.max_time) for stream_id, position in db.positions.items()},
    )


def loaded(beginning, operations):
    """Play a schedule to its end, in a world of its own, and return the world."""
    world = World(beginning, Tally())
    assert simulate_in(world, Schedule(beginning=beginning, operations=tuple(operations))) == []
    return world


def test_any_cuts_of_records_in_order_give_the_same_rows(first_seed):
    for seed in range(first_seed, first_seed + 25):
        random = Random(seed)
        beginning = replace(BEGINNING, ends=(0, 0), incarnation=1, batch_records=200)
        counts = [random.randint(5, 25) for _ in range(2)]
        whole = loaded(beginning, [Correct(), *(Arrive(place, count) for place, count in enumerate(counts))])
        cut, left = [Correct()], dict(enumerate(counts))
        while any(left.values()):
            for place, most in list(left.items()):
                n = random.randint(0, most)
                left[place] = most - n
                cut += [Arrive(place, n)] if n else []
            cut += [Start(NewRecords()), Finish(-1)]
        pieces = loaded(replace(beginning, batch_records=random.choice((2, 3, 7))), cut)
        assert tables(pieces) == tables(whole), f"seed {seed}"
        assert len(pieces.database.state_batches) > len(whole.database.state_batches)


def load_again(play, world, to_batch):
    """Rewind, and load everything again."""
    play.command(Rewind(to_batch))
    finish(play)
    for _ in range(20):
        run = play.start(SCHEDULED)
        finish(play)
        if found_nothing(run):
            return
    raise AssertionError(f"after a rewind to {to_batch} there is always something to load")


@pytest.mark.parametrize("on_gap", ["keep", "reset"])
def test_a_rewind_to_any_batch_and_a_reload_give_the_same_tables(first_seed, on_gap):
    for seed in range(first_seed, first_seed + 3):
        random = Random(seed)
        visits = replace(BEGINNING.visits, on_gap=on_gap, late=random.choice(("reject", "process")))
        beginning = replace(
            BEGINNING, batch_records=4, incarnation=random.choice((1, 2, ODD_CLOCKS + 1, ODD_CLOCKS + 2)), visits=visits
        )
        operations = [*LOADED, SkipOffsets(0, 11, 2), Finish(-1), Start(NewRecords()), Finish(-1), Arrive(0, 9)]
        world = loaded(beginning, operations)
        play = Play(world)
        play.runs += world.airflow.runs
        world.airflow.runs = play.runs
        with world.patched():
            load_again(play, world, 0)  # some were folded before the transform was corrected
            before = tables(world)
            for number in range(len(standing(world))):
                load_again(play, world, [0, *standing(world)][number])
                assert tables(world) == before, f"seed {seed}, boundary {number}"
                assert world.broken == []
                assert final_problems(world) == []
        assert number > 4


def standing(world):
    """Return the batches that are folded and were not rewound, in order."""
    return [row.batch_id for row in world.database.state_batches.values() if row.undo != "applied"]
