"""Write MUTANTS.md, the list of the guards that the mutants remove:

PYTHONPATH=tests .local/env/bin/python -m faults.mutants.mutants_table
"""

from collections.abc import Iterable
from pathlib import Path

from faults.mutants.delta_guards import LAKE_MUTANTS
from faults.mutants.flow_guards import FLOW_MUTANTS, FLOW_TESTED_MUTANTS
from faults.mutants.ledger_guards import LEDGER_MUTANTS
from faults.mutants.mutant import Mutant
from faults.mutants.outside_guards import OUTSIDE_MUTANTS, OUTSIDE_TESTED_MUTANTS
from faults.mutants.postgres_guards import POSTGRES_MUTANTS
from faults.mutants.state_guards import STATE_MUTANTS, STATE_TESTED_MUTANTS
from faults.mutants.tested_guards import TESTED_MUTANTS

PAGE = Path(__file__).with_name("MUTANTS.md")
COMMAND = "PYTHONPATH=tests .local/env/bin/python -m faults.mutants.mutants_table"
WITH_PROCESSES = (*POSTGRES_MUTANTS, *LAKE_MUTANTS)
SIMULATED = (*LEDGER_MUTANTS, *FLOW_MUTANTS, *OUTSIDE_MUTANTS, *STATE_MUTANTS)
TESTED = (*TESTED_MUTANTS, *FLOW_TESTED_MUTANTS, *OUTSIDE_TESTED_MUTANTS, *STATE_TESTED_MUTANTS)
_SECTIONS = (
    ("Detected by the simulation, within 50 schedules", SIMULATED),
    ("Detected by real processes on Postgres and Delta tables, within 50 schedules", WITH_PROCESSES),
    ("Detected by a test of their own", TESTED),
)


def page() -> str:
    """Return the text of MUTANTS.md."""
    count = sum(len(mutants) for _, mutants in _SECTIONS)
    head = (
        "# Mutants\n\n"
        f"{count} guards of the product. Each is removed from a copy of the product, and the tests have to detect it.\n"
        "[reliability.md](../../../docs/reliability.md#mutants) says how. This page is written by\n\n"
        f"    {COMMAND}\n"
    )
    return "\n".join([head, *(f"## {title}\n\n{_table(mutants)}\n" for title, mutants in _SECTIONS)])


def _table(mutants: Iterable[Mutant]) -> str:
    rows = [f"| {mutant.name.replace('_', ' ')} | {mutant.guard} | {mutant.edits[0].file} |" for mutant in mutants]
    return "\n".join(["| mutant | the guard that it removes | in |", "|---|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
