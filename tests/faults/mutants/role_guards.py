"""Mutants for the guards between roles: what each may do, and ways around the laws. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_MIGRATION = "include/tideline/ledger/sql/migrations/0017_roles.sql"
_IDENTITY = "include/tideline/ledger/sql/migrations/0025_identity.sql"
_PUBLIC = "include/tideline/ledger/sql/roles/revoke_public.sql"
_TESTS = "tests/integration/test_forbidden_statements.py"

ROLE_MUTANTS = (
    Mutant(
        "events_pruned_by_any_role",
        "the date to prune by counts only where the owner of the ledger deletes",
        (Edit(_MIGRATION, "IF current_user = (SELECT", "IF current_user IS NOT NULL OR current_user = (SELECT"),),
        seen_by=f"{_TESTS}::test_the_date_to_prune_by_counts_for_the_owner_only",
    ),
    Mutant(
        "staging_of_a_living_attempt_dropped",
        "the staging table of an attempt that holds its batch is not dropped",
        (
            Edit(
                _IDENTITY,
                "IF owner.state = 'writing' AND owner.attempt = number THEN",
                "IF false THEN",
            ),
        ),
        seen_by=f"{_TESTS}::test_the_staging_of_an_attempt_that_holds_its_batch_is_not_dropped",
    ),
    Mutant(
        "search_path_of_the_session",
        "laws do not use operators that a role has created",
        (
            Edit(
                _IDENTITY,
                "check_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS",
                "check_batch() RETURNS trigger LANGUAGE plpgsql AS",
            ),
        ),
        seen_by=f"{_TESTS}::test_a_role_cannot_put_an_operator_of_its_own_before_that_of_a_law",
    ),
    Mutant(
        "triggers_for_tables_of_others",
        "no role puts a function that acts as the owner on a table of its own",
        (
            Edit(_MIGRATION, "tideline.keep_position(), ", ""),
            Edit(_PUBLIC, "REVOKE ALL ON ALL ROUTINES IN SCHEMA tideline FROM PUBLIC;\n", ""),
        ),
        seen_by=f"{_TESTS}::test_postgres_refuses_what_a_role_may_not_do",
    ),
)
