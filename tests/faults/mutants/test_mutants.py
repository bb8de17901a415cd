"""Each guard of the protocol is taken away once, and the simulation sees it: a harness that finds nothing may also have looked at nothing."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from faults.mutants.guards import MUTANTS
from faults.mutants.mutant import grow
from faults.mutants.playing import Verdict, simulated
from faults.mutants.table import written
from tideline.settings import PROJECT

ENOUGH = 50
"""Schedules."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, Verdict]:
    """What came of each mutant, and of the product as it is, two at a time and each in a process of its own."""
    folder = tmp_path_factory.mktemp("mutants")
    trees = {None: grow(PROJECT, None, folder / "as it is")}
    trees |= {mutant.name: grow(PROJECT, mutant, folder / mutant.name) for mutant in MUTANTS}
    new = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=new, max_tasks_per_child=1) as pool:
        played = {name: pool.submit(simulated, tree, 0, ENOUGH) for name, tree in trees.items()}
        return {name: future.result() for name, future in played.items()}


def test_the_product_as_it_is_passes(verdicts):
    assert verdicts[None] == Verdict(ENOUGH)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_guard_that_is_gone_is_missed_within_fifty_schedules(verdicts, mutant):
    assert verdicts[mutant.name].law, f"{mutant.guard}: it does not, and nothing was found"


def test_the_docs_name_the_guards_that_are_tried(request):
    text = (PROJECT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert written(MUTANTS) in text, (
        "the table of mutants in docs/reliability.md is another one: see faults/mutants/table.py"
    )
