"""Test each step of each verb with each fault that can strike there: the task is tried again, the next run loads the
rest, and the result is right.

A step is a statement, a COMMIT, a COPY or a question to the broker. The steps are recorded from processes without
faults, so no point between two effects is left out by mistake.
"""

import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import groupby, islice

import pytest

from faults.processes import steps_table
from faults.processes.matrix import outcomes, recorded
from faults.processes.points import points
from faults.processes.process_faults import Fault
from faults.processes.verbs import VERBS
from tideline.settings import PROJECT

CASES = list(steps_table.cases(steps_table.shown()))
AT_ONCE = 8
"""Cases of one verb that run in a row on one pipeline."""
HERE = "tests/faults/processes/test_failpoints.py"


def of_a_commit():
    """Yield the fixed cases: each verb meets half of its faults, and its neighbour in the table the other half, each at another depth."""
    for number, (_, group) in enumerate(groupby(CASES, key=lambda case: case.verb)):
        by_fault = defaultdict(list)
        for case in group:
            by_fault[case.fault].append(case)
        for place, fault in enumerate(fault for fault in Fault if fault in by_fault):
            if (number + place) % 2 == 0:
                cases = by_fault[fault]
                yield cases[(2 * place + number % 3 + 1) * len(cases) // (2 * len(Fault) + 2)]


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = CASES if metafunc.config.getoption("--soak") else list(of_a_commit())
        metafunc.parametrize("case", cases, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def struck(workers, request, share, tally):
    """Yield the pending result of each selected case, in groups by verb."""
    begun = time.monotonic()
    ours = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    wanted = {item.callspec.params["case"] for item in ours}
    by_verb = defaultdict(list)
    for case in CASES:
        if case in wanted:
            by_verb[case.verb].append(case)
    found = {}
    for cases in by_verb.values():
        rest = iter(cases)
        while part := list(islice(rest, AT_ONCE)):
            future = workers.submit(outcomes, part, share.failpoint_rounds)
            found |= {case: (future, number) for number, case in enumerate(part)}
    yield found
    tally(
        "failpoints",
        cases=len(found),
        rounds=share.failpoint_rounds,
        seconds=time.monotonic() - begun,
    )


def test_every_step_of_every_verb_is_in_the_table(workers):
    found = {verb: workers.submit(recorded, verb) for verb in VERBS}
    now = steps_table.rendered(points({verb: future.result() for verb, future in found.items()}))
    assert steps_table.shown() == now.strip("\n"), f"the verbs have other steps than STEPS.md: {steps_table.COMMAND}"


def test_there_are_enough_steps():
    assert len({(case.verb, case.step) for case in CASES}) >= 100


def test_a_commit_strikes_each_verb_and_with_each_fault_in_the_middle_of_something():
    cases = list(of_a_commit())
    assert len(set(cases)) == len(cases) >= 100
    assert {case.verb for case in cases} == {case.verb for case in CASES}
    struck_by = Counter(case.fault for case in cases)
    assert min(struck_by[fault] for fault in Fault) >= 10
    assert len({case.step for case in cases}) >= 70


def test_whatever_happens_before_a_step_ends_right(struck, case):
    future, number = struck[case]
    if wrong := future.result()[number]:
        again = f"pytest {HERE} --soak -k {case.name}"
        pytest.fail(f"{case.name}: {wrong}\n    {again}", pytrace=False)


def test_no_shipped_file_knows_of_failpoints():
    """No failpoint can be switched on in production."""
    shipped = [p for folder in ("include", "spark_jobs", "dags") for p in (PROJECT / folder).rglob("*.py")]
    known = re.compile(r"failpoint|(from|import) faults|\binject", re.IGNORECASE)
    assert [str(path) for path in shipped if known.search(path.read_text(encoding="utf-8"))] == []


def test_a_process_of_production_sends_its_statements_itself():
    """Steps wait because a test process replaces the doors of the drivers; no shipped code does that."""
    process = """
import adbc_driver_manager.dbapi as adbc, deltalake, psycopg2
import tideline.sinks.delta.sink, tideline.spark_jobs.write_batches, tideline.cli, tideline.flow, tideline.ledger.migrate
print(psycopg2.connect.__module__, adbc.Cursor.adbc_ingest.__module__, adbc.connect.__module__)
print(deltalake.DeltaTable.create_write_transaction.__module__, deltalake.DeltaTable.__init__.__module__)
"""
    result = subprocess.run([sys.executable, "-c", process], check=True, capture_output=True, text=True)
    adbc, deltalake = "adbc_driver_manager.dbapi", "deltalake.table"
    assert result.stdout.split() == ["psycopg2", adbc, adbc, deltalake, deltalake]
