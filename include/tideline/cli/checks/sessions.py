"""Checks of the sessions with the ledger's database: what stands in front of the server, and what a session of psql has there."""

from tideline import settings
from tideline.cli.checks import Check, ok, warn
from tideline.ledger import invariants
from tideline.ledger.connection import Ledger

_ABOUT = "ledger"
_HARMLESS = {"default_transaction_isolation": "read committed", "default_transaction_read_only": "off"}
_SHOWN = (
    *_HARMLESS,
    "statement_timeout",
    "transaction_timeout",
    "idle_session_timeout",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
)


def pooler(variable: str) -> Check:
    """Check that nothing in front of the server loses the settings of the sessions of a role, whose URL a variable holds.

    Raises:
        FatalError: A pooler loses them.
        RetryableError: The server did not answer.
    """
    url, variable = settings.url_of(variable)
    with Ledger(url, actor="doctor", variable=variable) as session:
        return _pooler(session, url, variable)


def _pooler(session: Ledger, url: str, variable: str) -> Check:
    if not session.behind_pooler:
        return ok(_ABOUT, "pooler", f"{variable} leads to Postgres itself")
    # Another session sets what this one has set. If transactions are pooled, this one finds it now.
    with Ledger(url, actor="doctor", variable=variable) as other, other.transaction():
        pass
    with session.transaction():
        pass
    return ok(_ABOUT, "pooler", f"{variable} leads to a pooler, which keeps the settings of sessions")


def prompt(variable: str) -> Check:
    """Report what a session of a role has that sets nothing itself, such as one of psql. The sessions of Tideline set all of it.

    Raises:
        RetryableError: The server did not answer.
    """
    url, variable = settings.url_of(variable)
    found = {row["name"]: row for row in invariants.settings_of_a_prompt(url, variable, _SHOWN)}
    shown = ", ".join(f"{name} {found[name]['value']}" for name in _SHOWN if name in found)
    wrong = [name for name, value in _HARMLESS.items() if found[name]["value"] != value]
    if not wrong:
        return ok(_ABOUT, "sessions", f"psql has {shown}; Tideline sets its own")
    places = ", ".join(f"{name} {found[name]['value']} (from {found[name]['source']})" for name in wrong)
    return warn(
        _ABOUT,
        "sessions",
        f"psql has {places}: the ledger refuses what is written there. Tideline sets its own; what it sets as well: {shown}",
        " ".join(f"SET {name} = '{_HARMLESS[name]}';" for name in wrong) + " at the prompt, before writing",
    )
