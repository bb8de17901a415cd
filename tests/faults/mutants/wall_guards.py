"""Mutants for the guards against what roles could do with their rights. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_MIGRATION = "include/tideline/ledger/sql/migrations/0018_walls.sql"
_TESTS = "tests/integration/test_walls.py"

WALL_MUTANTS = (
    Mutant(
        "hole_of_another_transaction",
        "a hole that no event records is the rest of one that was deleted",
        (
            Edit(
                _MIGRATION,
                "IF NOT EXISTS (\n        SELECT FROM tideline.gone_hole g",
                "IF false AND NOT EXISTS (\n        SELECT FROM tideline.gone_hole g",
            ),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "rest_of_a_hole_changed",
        "the rest of a hole keeps its kind, its reason and its name",
        (Edit(_MIGRATION, "(g.hole, g.reason, g.decided_by, g.r", "(NEW.hole, NEW.reason, NEW.decided_by, g.r"),),
        seen_by=_TESTS,
    ),
    Mutant(
        "gone_hole_not_forgotten",
        "a hole is remembered only by the transaction that has deleted it",
        (
            Edit(_MIGRATION, "WHERE gone_in = pg_current_xact_id() AND stream_id", "WHERE stream_id"),
            Edit(_MIGRATION, "DELETE FROM tideline.gone_hole WHERE", "DELETE FROM tideline.gone_hole WHERE false AND"),
        ),
        seen_by=f"{_TESTS}::test_a_hole_that_is_gone_is_forgotten_with_its_transaction",
    ),
    Mutant(
        "decision_rewritten",
        "coverage never changes in place",
        (
            Edit(
                _MIGRATION,
                "CREATE TRIGGER coverage_never_changes BEFORE UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.refuse();\n",
                "",
            ),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "rejects_deleted_without_their_batch",
        "rejects go only with the publication of a batch that loads their records",
        (
            Edit(
                _MIGRATION,
                "IF NOT EXISTS (SELECT FROM tideline.batch WHERE batch_id = ANY",
                "IF false AND NOT EXISTS (SELECT FROM tideline.batch WHERE batch_id = ANY",
            ),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "event_forged",
        "no role adds an event that a law records",
        (Edit(_MIGRATION, "IF by_owner AND (pg_trigger", "IF true OR by_owner AND (pg_trigger"),),
        seen_by=_TESTS,
    ),
    Mutant(
        "event_antedated",
        "an event has the time at which it is added",
        (Edit(_MIGRATION, "    NEW.at := clock_timestamp();\n", ""),),
        seen_by=_TESTS,
    ),
    Mutant(
        "login_chosen",
        "an event has the login of its session",
        (Edit(_MIGRATION, "    NEW.login := session_user;\n", ""),),
        seen_by=_TESTS,
    ),
    Mutant(
        "events_pruned_without_a_trace",
        "deleting events leaves one",
        (Edit(_MIGRATION, "IF n_events > 0 THEN", "IF false THEN"),),
        seen_by=_TESTS,
    ),
    Mutant(
        "staging_of_an_intent_dropped",
        "a staging table that an attempt may still commit outside is not dropped",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0025_identity.sql",
                "IF owner.state IN ('planned', 'writing', 'failed') AND EXISTS (",
                "IF false AND EXISTS (",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_the_staging_table_of_what_may_be_committed_is_not_dropped",
    ),
    Mutant(
        "rights_of_everyone_kept",
        "what everyone may do on the ledger is taken away",
        (Edit("include/tideline/ledger/roles.py", 'found = [_composed("revoke_public")]', "found = []"),),
        seen_by="tests/integration/test_migrate_roles.py::test_a_right_that_everyone_should_not_have_is_taken_away",
    ),
)
