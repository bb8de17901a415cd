"""A pipeline that wants the newest records only: each run begins at the latest ones, and what it passes over is on record."""

import records
from operating import holes
from system import decoded

NAME = "newest"


def test_each_run_takes_the_newest_records_and_leaves_a_hole_in_the_policys_name(system):
    """Ten records fit into one run."""
    sent = system.fill(NAME, 30)
    system.run(NAME)
    assert system.output(NAME) == decoded({place: sent[place] for place in [(0, n) for n in range(20, 30)]})
    first = (0, 0, 20, "skipped", "latest wins", "policy latest_wins")
    assert (holes(system, NAME), system.heads(NAME)) == ([first], [30])

    sent |= records.produce(system.bootstrap, NAME, map(records.record, range(30, 55)))
    system.run(NAME)
    places = [(0, n) for n in (*range(20, 30), *range(45, 55))]
    assert system.output(NAME) == decoded({place: sent[place] for place in places})
    second = (0, 30, 45, "skipped", "latest wins", "policy latest_wins")
    assert (holes(system, NAME), system.heads(NAME)) == ([first, second], [55])
