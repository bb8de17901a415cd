"""Mutants for the settings of sessions, on which the laws depend. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_MIGRATION = "include/tideline/ledger/sql/migrations/0021_isolation.sql"
_SETTINGS = "include/tideline/ledger/session_settings.py"
_CONNECTION = "include/tideline/ledger/connection.py"
_TESTS = "tests/integration/test_session_settings.py"

SESSION_MUTANTS = (
    Mutant(
        "level_of_the_database",
        "sessions set the isolation level, and triggers refuse another one",
        (
            Edit(_SETTINGS, '    "default_transaction_isolation": "read committed",\n', ""),
            Edit(_CONNECTION, '            connection.set_session(isolation_level="READ COMMITTED")\n', ""),
            Edit(_MIGRATION, "IF current_setting(", "IF false AND current_setting("),
        ),
        seen_by=f"{_TESTS}::test_what_a_tombstone_has_deleted_stays_deleted_at_any_level_of_the_database",
    ),
    Mutant(
        "any_level_at_a_prompt",
        "triggers refuse writes at another isolation level",
        (Edit(_MIGRATION, "IF current_setting(", "IF false AND current_setting("),),
        seen_by=_TESTS,
    ),
    Mutant(
        "settings_left_to_the_pooler",
        "settings that a pooler has dropped are set by a statement",
        (
            Edit(
                _CONNECTION,
                "        cursor.execute(opening(self._mark))\n",
                '        cursor.execute(opening(self._mark).replace("set_config(key, value, false)", "key"))\n',
            ),
        ),
        seen_by=f"{_TESTS}::test_the_values_of_our_sessions_win",
    ),
    Mutant(
        "transactions_pooled",
        "a transaction that a pooler has given to another session of the server is refused",
        (Edit(_CONNECTION, "            if self.behind_pooler:\n", "            if False:\n"),),
        seen_by=f"{_TESTS}::test_a_pooler_of_transactions_is_refused_before_a_statement_reaches_another_session",
    ),
    Mutant(
        "session_without_laws",
        "a session in which no trigger fires is refused",
        (Edit(_CONNECTION, 'if found["replication_role"] == "replica":', "if False:"),),
        seen_by=f"{_TESTS}::test_a_session_without_laws_is_refused",
    ),
)
