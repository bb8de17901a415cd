"""Mutants for the guards of the ledger's version, and of clock changes. The test named with each detects it."""

from faults.mutants.mutant import Edit, Mutant

_LEDGER = "include/tideline/ledger"

RELEASE_MUTANTS = (
    Mutant(
        "another_release_used",
        "code does no work on an older ledger",
        (Edit(f"{_LEDGER}/versions.py", "    if lacking:\n", "    if False:\n"),),
        seen_by="tests/integration/test_migrations.py",
    ),
    Mutant(
        "invalid_index_kept",
        "an index whose creation was interrupted is created again",
        (
            Edit(
                f"{_LEDGER}/migrate.py",
                "        if index and _is_invalid(ledger, index):\n            drop =",
                "        if False:\n            drop =",
            ),
        ),
        seen_by="tests/integration/test_migrations.py",
    ),
    Mutant(
        "new_holes_by_the_clock",
        "a hole is new in the transaction that decides it",
        (
            Edit(
                f"{_LEDGER}/sql/migrations/0011_new_holes.sql",
                "NEW.decided_in = pg_current_xact_id()) AND EXISTS",
                "NEW.recorded_at >= now()) AND EXISTS",
            ),
        ),
        seen_by="tests/integration/test_coverage_laws.py",
    ),
)
