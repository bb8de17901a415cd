"""Each guard of the protocol is removed once, and the harness must detect it: a harness that finds nothing may also have checked nothing."""

import multiprocessing
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import pytest

import shared_servers
from faults.drawn_schedules import CROWDED_EVERY, OUTSIDE, STATEFUL
from faults.mutants import mutants_table
from faults.mutants.mutant import Mutant, edited, grow
from faults.mutants.mutant_runner import Verdict, simulated, with_processes, with_tests
from faults.mutants.mutants_table import SIMULATED, TESTED, WITH_PROCESSES
from faults.share import COMMIT, SOAK
from tideline.settings import PROJECT

MIGRATIONS = "include/tideline/ledger/sql/migrations"
FUNCTIONS = re.compile(r"(?s)CREATE (?:OR REPLACE )?FUNCTION tideline\.(\w+)\([^$]*\$\$.*?\$\$")
ENOUGH = 50
"""Schedules."""
LIBRARIES = (
    "adbc_driver_postgresql.dbapi", "confluent_kafka.admin", "croniter", "greenlet", "orjson", "psutil", "psycopg2.extras", "psycopg2.sql",
    "pyarrow.compute", "pyarrow.json", "pydantic.main", "pydantic._internal._generate_schema", "pydantic.json_schema",
    "pyspark.sql.datasource", "pytest", "ruamel.yaml", "unittest.mock",
)  # fmt: skip
"""Modules that take most of the import time and are the same for each copy of the product: a process that has imported them is forked."""


PLAYED = (*SIMULATED, *WITH_PROCESSES)


def sample(mutants, first_seed, of):
    """Choose one mutant of each `of`. The choice follows from the seed, so that consecutive commits try all of them."""
    return [mutant for number, mutant in enumerate(mutants) if (first_seed + number) % of == 0]


def pytest_generate_tests(metafunc):
    for name, mutants in (("played", PLAYED), ("tested", TESTED)):
        if name in metafunc.fixturenames:
            config = metafunc.config
            of = (SOAK if config.getoption("--soak") else COMMIT).mutants_of
            chosen = sample(mutants, config.getoption("--first-seed"), of)
            metafunc.parametrize(name, chosen, ids=lambda mutant: mutant.name)


@pytest.fixture(scope="module")
def tried(request, tmp_path_factory, side_by_side, postgres, broker) -> Iterable[Mapping[str | None, Future[Any]]]:
    """Run each mutant that a selected test needs, and the unchanged product, each in a process of its own; yield the results."""
    parameters = (getattr(item, "callspec", None) for item in request.session.items)
    asked = {
        mutant.name for spec in parameters if spec for mutant in spec.params.values() if isinstance(mutant, Mutant)
    }
    folder = tmp_path_factory.mktemp("mutants")
    servers = shared_servers.described(postgres=postgres, broker=broker)
    new = multiprocessing.get_context("forkserver")
    new.set_forkserver_preload(list(LIBRARIES))
    with ProcessPoolExecutor(side_by_side, mp_context=new, max_tasks_per_child=1) as pool:

        def submitted(mutant: Mutant | None, play: Callable[..., Any], *arguments: object) -> Future[Any]:
            tree = grow(PROJECT, mutant, folder / (mutant.name if mutant else "as it is"))
            return pool.submit(play, tree, *arguments)

        def played(mutant: Mutant | None, play: Callable[..., Verdict]) -> Future[Verdict]:
            first = mutant.first_seed if mutant else 0
            # The crowded schedules: a guard matters when another action comes in between.
            return submitted(mutant, play, range(first, first + ENOUGH * CROWDED_EVERY, CROWDED_EVERY))

        found: dict[str | None, Future[Any]] = {None: played(None, simulated)}
        for kind, begin in (("outside", OUTSIDE), ("stateful", STATEFUL)):
            seeds = range(begin, begin + ENOUGH * CROWDED_EVERY, CROWDED_EVERY)
            found[kind] = pool.submit(simulated, folder / "as it is", seeds)
        found |= {mutant.name: played(mutant, simulated) for mutant in SIMULATED if mutant.name in asked}
        found |= {mutant.name: played(mutant, with_processes) for mutant in WITH_PROCESSES if mutant.name in asked}
        found |= {
            mutant.name: submitted(mutant, with_tests, mutant.seen_by, servers)
            for mutant in TESTED
            if mutant.name in asked
        }
        yield found
        pool.shutdown(cancel_futures=True)


def test_the_product_as_it_is_passes(tried):
    """In schedules of each kind: with a table, with an outside sink, and with a state."""
    assert {tried[kind].result() for kind in (None, "outside", "stateful")} == {Verdict(ENOUGH)}


def test_a_guard_that_is_gone_is_missed_within_fifty_schedules(tried, played):
    assert tried[played.name].result().found, f"{played.guard}: it does not, and nothing was found"


def test_a_guard_that_schedules_seldom_need_is_missed_by_a_test(tried, tested):
    code, printed = tried[tested.name].result()
    assert code == pytest.ExitCode.TESTS_FAILED, printed
    assert " error" not in printed.splitlines()[-1], printed


def test_each_mutant_still_changes_what_it_is_about():
    """Also those that this commit does not try. A copy that cannot be compiled would fail for another reason."""
    for mutant in (*PLAYED, *TESTED):
        texts = edited(PROJECT, mutant)
        assert texts, mutant.name
        for name, text in texts.items():
            if name.endswith(".py"):
                compile(text, f"{mutant.name}: {name}", "exec")


def test_a_mutant_of_a_function_in_postgres_changes_its_newest_definition():
    """A later migration may replace the function: a mutant of the older definition would change nothing."""
    newest = {
        found[1]: found[0]
        for path in sorted((PROJECT / MIGRATIONS).glob("*.sql"))
        for found in FUNCTIONS.finditer(path.read_text(encoding="utf-8"))
    }
    for mutant in (*PLAYED, *TESTED):
        for edit in mutant.edits:
            if edit.file.startswith(MIGRATIONS):
                for found in FUNCTIONS.finditer((PROJECT / edit.file).read_text(encoding="utf-8")):
                    assert edit.old not in found[0] or newest[found[1]] == found[0], f"{mutant.name}: {found[1]}"


def test_a_few_commits_try_every_mutant():
    for mutants in (PLAYED, TESTED):
        commits = [sample(mutants, seed, COMMIT.mutants_of) for seed in range(COMMIT.mutants_of)]
        assert {mutant.name for commit in commits for mutant in commit} == {mutant.name for mutant in mutants}
        assert sample(mutants, 0, SOAK.mutants_of) == list(mutants)


def test_the_page_of_mutants_lists_those_that_are_tried():
    assert mutants_table.PAGE.read_text(encoding="utf-8") == mutants_table.page(), mutants_table.COMMAND
