"""Mutants for the turns that planners of a pipeline take."""

from faults.mutants.mutant import Edit, Mutant

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"
_TESTS = "tests/integration/test_planning_races.py"

PLANNING_MUTANTS = (
    Mutant(
        "planners_do_not_wait",
        "planners of a pipeline take turns",
        (Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),),
        seen_by=_TESTS,
    ),
    Mutant(
        "offset_in_two_batches",
        "no offset is reserved twice (the exclusion constraint, and the turns of planners)",
        (
            Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),
            Edit(f"{_MIGRATIONS}/0001_ledger.sql", "        WHERE (reserves)\n", "        WHERE (false)\n"),
        ),
        seen_by=_TESTS,
    ),
)
