"""A rewind from the trigger form: the run says what it undoes, and loads it again with the corrected processor."""

from dataclasses import dataclass
from decimal import Decimal

import pytest

NAME = "rewound"
ROWS = "SELECT id, name, price, tideline_batch FROM e2e.rewound ORDER BY id"


@dataclass(frozen=True, kw_only=True)
class Rewound:
    """The rows before, the ids of the batches before, and the run of each form."""

    before: list
    batches: list[int]
    dry: str
    wrong: str
    run: str


@pytest.fixture(scope="module")
def rewound(system) -> Rewound:
    """Load four batches, of which the last two are wrong, and correct the processor."""
    system.fill(NAME, 20)
    system.run(NAME)
    batches, before = sorted(system.batches(NAME)), system.rows(ROWS)
    transform = system.folder / "pipelines" / NAME / "transform.py"
    transform.write_text(transform.read_text().replace("STEP = 2", "STEP = 1"))
    dry = system.run(NAME, load="rewind", to_batch=batches[1], dry_run=True, reason="what would happen?")
    assert system.rows(ROWS) == before
    wrong = system.fail(NAME, load="rewind", to_batch=batches[-1] + 99, reason="no such batch")
    run = system.run(NAME, load="rewind", to_batch=batches[1], reason="each record counted twice")
    return Rewound(before=before, batches=batches, dry=dry, wrong=wrong, run=run)


def test_a_dry_run_says_what_would_be_undone_and_loads_nothing(system, rewound):
    assert set(system.states(NAME, rewound.dry).values()) == {"skipped"}
    third, fourth = rewound.batches[2:]
    log = system.log(NAME, rewound.dry, "plan")
    assert f"batches {third}, {fourth} would be undone, with 10 rows of the output (a dry run)" in log
    assert "nothing to load; a dry run, which has changed nothing" in log


def test_a_number_that_is_no_boundary_fails_at_once_and_says_how_to_find_one(system, rewound):
    assert system.airflow.tasks(NAME, rewound.wrong)["plan"]["try_number"] == 1
    log = system.log(NAME, rewound.wrong, "plan")
    assert f"batch {rewound.batches[-1] + 99} is not folded into the state" in log
    assert f"tideline batches {NAME}" in log


def test_the_run_that_rewinds_says_what_it_has_undone_and_loads_it_again(system, rewound):
    third, fourth = rewound.batches[2:]
    assert f"batches {third}, {fourth} are undone, with 10 rows of the output" in system.log(NAME, rewound.run, "plan")
    again = system.planned(NAME, rewound.run)
    rows = system.rows(ROWS)
    assert rows[:10] == rewound.before[:10]
    assert [row[3] for row in rows[10:]] == [again[0]] * 5 + [again[1]] * 5
    seen = {row[1]: row[2] for row in rows[:10]}
    for number, name, price, _ in rows[10:]:
        seen[name] += 1
        assert (number, price) == (number, Decimal(seen[name]))
    assert system.heads(NAME) == [20]


def test_the_history_has_the_run_and_the_reason(system, rewound):
    [(to_batch, reason, decided_by)] = system.rows(
        "SELECT to_batch, reason, decided_by FROM tideline.rewind WHERE pipeline = %s", NAME
    )
    assert (to_batch, reason) == (rewound.batches[1], "each record counted twice")
    assert decided_by == f"{NAME} {rewound.run} plan try 1"


def test_a_run_that_is_cleared_does_not_rewind_again(system, rewound):
    rows = system.rows(ROWS)
    system.airflow.clear(NAME, rewound.run)
    system.succeed(NAME, rewound.run)
    assert system.rows(ROWS) == rows
    assert "this run has rewound before" in system.log(NAME, rewound.run, "plan")


def test_a_pipeline_without_a_state_does_not_offer_it(system):
    with pytest.raises(Exception, match="'rewind' is not one of"):
        system.start("asked", load="rewind", to_batch=1, reason="why not")
