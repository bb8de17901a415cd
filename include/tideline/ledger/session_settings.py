"""Settings of every session with the ledger's database: of the ledger's own sessions, and of Spark tasks with another driver.

A database, a role or an environment variable may have other values, and a pooler may drop what a client sends at its start.
So each session sends them at its start, and sets them once more by a statement.
"""

import json

from psycopg2.extensions import make_dsn

LOCK_TIMEOUT_MS = 30_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000
ASKING_IDLE_TIMEOUT_MS = 240_000
"""The same within a transaction that holds a pipeline's lock: it asks brokers, and gives up before, see `flow.planning.DEADLINE_S`."""
CLIENT_CHECK_MS = 5_000

SESSION: dict[str, int | str] = {
    # At another level a session goes on to look with the snapshot that it had before it waited for a lock, and breaks laws.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "lock_timeout": LOCK_TIMEOUT_MS,
    # A frozen client must not hold row locks for ever: other sessions wait for them.
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
    # The same for a statement whose client was killed: without this the server notices only when the statement ends.
    "client_connection_check_interval": CLIENT_CHECK_MS,
    # Publishing takes as long as its batch is large, and an attempt has a time limit of its own. A driver's session is idle
    # while Spark stages.
    "statement_timeout": 0,
    "idle_session_timeout": 0,
    # Published means on disk. With an earlier acknowledgement, a crash would lose the newest batches after readers have
    # already seen them.
    "synchronous_commit": "on",
    "timezone": "UTC",
    # What statements mean, and in what form their results are read and shown.
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",  # the names of types are compared
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": 1,
}

_NEWER: dict[str, int | str] = {"transaction_timeout": 0}
"""Settings that not every supported server knows. A connection that sends one at its start would be refused."""

_LINK = {
    "connect_timeout": 10,
    # If the peer vanishes, a wait for its answer ends after 25 seconds, and a send that it does not acknowledge ends after
    # 30 seconds. By default the kernel retries a send for a quarter of an hour, and a connection that only waits hangs
    # for two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def conninfo(url: str) -> str:
    """Return `url` with the settings that every session with the ledger's database has, for any driver."""
    given = {name: str(value).replace(" ", "\\ ") for name, value in SESSION.items()}
    options = " ".join(f"-c {name}={value}" for name, value in given.items())
    # The encoding by a word of its own, which poolers keep: drivers look at it when they have connected.
    return make_dsn(url, options=options, client_encoding="UTF8", application_name="tideline", **_LINK)


def plain_conninfo(url: str) -> str:
    """Return `url` without these settings: a session as psql has it."""
    return make_dsn(url, application_name="tideline", **_LINK)


def wanted() -> str:
    """Return the settings as a JSON object, for the statement that sets them; those that a server does not know included."""
    return json.dumps({name: str(value) for name, value in (SESSION | _NEWER).items()})
