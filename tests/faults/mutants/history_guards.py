"""Mutants for the guards of the history: rejects, attempts and events changed at a psql prompt. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_MIGRATION = "include/tideline/ledger/sql/migrations/0012_guarded_tables.sql"
_ROLES = "include/tideline/ledger/sql/migrations/0017_roles.sql"
_TESTS = "tests/integration/test_guarded_tables.py"

HISTORY_MUTANTS = (
    Mutant(
        "reject_deleted_by_hand",
        "a reject is deleted only by a re-drive or a replay that loads its record",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0018_walls.sql",
                "        RETURN NULL;\n    END IF;\n    FOR writing IN",
                "        RETURN NULL;\n    END IF;\n    RETURN NULL;\n    FOR writing IN",
            ),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "reject_of_a_stale_attempt",
        "rejects are inserted only by the attempt that holds their batch",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0013_outside_sinks.sql",
                "          AND c.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END)) THEN",
                "        )) THEN",
            ),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "attempt_ends_twice",
        "the outcome of an attempt never changes",
        (Edit(_MIGRATION, "OR OLD.ended_at IS NOT NULL AND (", "OR false AND ("),),
        seen_by=_TESTS,
    ),
    Mutant(
        "young_events_deleted",
        "no event of the last day is deleted, whatever time is given",
        (Edit(_ROLES, " AND OLD.at < now() - interval '1 day'", ""),),
        seen_by=_TESTS,
    ),
)
