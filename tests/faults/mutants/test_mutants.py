"""Each guard of the protocol is removed once, and the harness must detect it: a harness that finds nothing may also have checked nothing.

A mutant names what detects it: a test, or a schedule that was recorded. Only that is tried, so a mutant that lives says that
the product or the harness has changed. A commit tries those that the simulation detects, and some of the others; `--soak` tries
all, and searches new schedules that detect those of the simulation.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from itertools import groupby
from typing import Any

import pytest

from faults.drawn_schedules import CROWDED_EVERY
from faults.mutants.__main__ import PLAYS, beginning
from faults.mutants.mutant import PROCESSES, SIMULATION, TEST, Mutant, edited, every
from faults.mutants.mutant_runner import Verdict, simulated, with_tests
from faults.mutants.trials import trials
from servers import shared_servers
from tideline.settings import PROJECT

MIGRATIONS = "include/tideline/ledger/migrations"
FUNCTIONS = re.compile(r"(?s)CREATE (?:OR REPLACE )?FUNCTION tideline\.(\w+)\([^$]*\$\$.*?\$\$")
MUTANTS = every()
RECORDED, NEW = "recorded", "new"
SOME = 3
ENOUGH = 500
"""New schedules in which the simulation has to need each of its guards."""


def of(level: str) -> list[Mutant]:
    return [mutant for mutant in MUTANTS if mutant.level == level]


def some(level: str) -> list[Mutant]:
    """Return the first mutants of a level, each of another table: each takes five seconds of processor time or more."""
    return [next(group) for _, group in groupby(of(level), key=lambda mutant: mutant.table)][:SOME]


def pytest_generate_tests(metafunc):
    of_others = of if metafunc.config.getoption("--soak") else some
    chosen = {
        "simulated_mutant": of(SIMULATION),
        "mutant_of_processes": of_others(PROCESSES),
        "tested_mutant": of_others(TEST),
    }
    for name, mutants in chosen.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, mutants, ids=lambda mutant: mutant.name)
    if "schedules" in metafunc.fixturenames:
        metafunc.parametrize("schedules", [RECORDED, NEW] if metafunc.config.getoption("--soak") else [RECORDED])


@pytest.fixture(scope="module")
def tried(request, tmp_path_factory, side_by_side, postgres, broker) -> Iterable[Mapping[Any, Future[Any]]]:
    """Try the mutants of the selected tests, and the product as it is; yield the results by mutant and kind of schedules."""
    servers = shared_servers.described(postgres=postgres, broker=broker)
    recorded = sorted({mutant.seed for mutant in of(SIMULATION)})
    with trials(tmp_path_factory.mktemp("mutants"), side_by_side) as pool:

        def begun(mutant: Mutant, schedules: str) -> Future[Any]:
            if schedules == NEW:
                first = beginning(mutant) + request.config.getoption("--first-seed")
                # The crowded schedules: a guard matters when another action comes in between.
                return pool.submit(mutant, simulated, range(first, first + ENOUGH * CROWDED_EVERY, CROWDED_EVERY))
            if mutant.level == TEST:
                return pool.submit(mutant, with_tests, mutant.seen_by, servers)
            return pool.submit(mutant, PLAYS[mutant.level], [mutant.seed])

        asked = [
            (mutant, item.callspec.params.get("schedules", RECORDED))
            for item in request.session.items
            if hasattr(item, "callspec")
            for mutant in item.callspec.params.values()
            if isinstance(mutant, Mutant)
        ]
        yield {
            None: pool.submit(None, simulated, recorded),
            **{one: begun(*one) for one in asked},
        }


def test_the_product_as_it_is_passes_the_recorded_schedules(tried):
    """Those with a table, with an outside sink, and with a state."""
    assert tried[None].result() == Verdict()


def test_a_guard_that_is_gone_is_missed_by_the_schedule_that_was_recorded(tried, simulated_mutant, schedules):
    """By night also by new ones."""
    assert tried[simulated_mutant, schedules].result().found, again(simulated_mutant)


def test_a_guard_that_real_processes_need_is_missed_by_the_schedule_that_was_recorded(tried, mutant_of_processes):
    assert tried[mutant_of_processes, RECORDED].result().found, again(mutant_of_processes)


def test_a_guard_that_schedules_seldom_need_is_missed_by_a_test(tried, tested_mutant):
    code, printed = tried[tested_mutant, RECORDED].result()
    assert code == pytest.ExitCode.TESTS_FAILED, printed
    assert "failed" in printed.splitlines()[-1], printed  # not only an error before the test


def again(mutant: Mutant) -> str:
    return (
        f"nothing was found: {mutant.guard}. If schedules are drawn in another way than before, record a new one: "
        f"PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.mutants {mutant.name}"
    )


def test_each_mutant_still_changes_what_it_is_about():
    """Also those that a commit does not try. A copy that cannot be compiled would fail for another reason."""
    for mutant in MUTANTS:
        texts = edited(PROJECT, mutant)
        assert texts, mutant.name
        for name, text in texts.items():
            if name.endswith(".py"):
                compile(text, f"{mutant.name}: {name}", "exec")


def test_each_test_that_detects_a_mutant_exists():
    """Also for those that a commit does not try: a renamed test would be missed a night later."""
    names: dict[str, set[str]] = {}
    for mutant in of(TEST):
        file, _, test = mutant.seen_by.partition("::")
        if file not in names:
            tree = ast.parse((PROJECT / file).read_text(encoding="utf-8"))
            names[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert not test or set(test.partition("[")[0].split("::")) <= names[file], f"{mutant.name}: {mutant.seen_by}"


def test_a_mutant_has_a_name_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_mutant_of_a_function_in_postgres_changes_its_newest_definition():
    """A later migration may replace the function: a mutant of the older definition would change nothing."""
    newest = {
        found[1]: found[0]
        for path in sorted((PROJECT / MIGRATIONS).glob("*.sql"))
        for found in FUNCTIONS.finditer(path.read_text(encoding="utf-8"))
    }
    for mutant in MUTANTS:
        for edit in mutant.edits:
            if edit.file.startswith(MIGRATIONS):
                for found in FUNCTIONS.finditer((PROJECT / edit.file).read_text(encoding="utf-8")):
                    assert edit.old not in found[0] or newest[found[1]] == found[0], f"{mutant.name}: {found[1]}"
