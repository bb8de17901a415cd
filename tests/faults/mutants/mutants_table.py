"""The tables of the guards for docs/reliability.md. Print it: PYTHONPATH=tests .local/env/bin/python -m faults.mutants.mutants_table"""

from collections.abc import Iterable

from faults.mutants.flow_guards import FLOW_MUTANTS, FLOW_TESTED_MUTANTS
from faults.mutants.ledger_guards import LEDGER_MUTANTS
from faults.mutants.mutant import Mutant
from faults.mutants.postgres_guards import POSTGRES_MUTANTS
from faults.mutants.tested_guards import TESTED_MUTANTS


def written(mutants: Iterable[Mutant]) -> str:
    """Return a table with one row per mutant."""
    rows = [f"| {mutant.name.replace('_', ' ')} | {mutant.guard} | {mutant.edits[0].file} |" for mutant in mutants]
    return "\n".join(["| mutant | what it lacks: that ... | where |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(
        *map(written, ((*LEDGER_MUTANTS, *FLOW_MUTANTS), POSTGRES_MUTANTS, (*TESTED_MUTANTS, *FLOW_TESTED_MUTANTS))),
        sep="\n\n",
    )
