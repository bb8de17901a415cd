"""The settings of each session with the ledger's database, in one place: those of the ledger, and those of Spark tasks with another driver."""

from psycopg2.extensions import make_dsn

LOCK_TIMEOUT_MS = 30_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000
CLIENT_CHECK_MS = 5_000

SESSION = {
    "lock_timeout": LOCK_TIMEOUT_MS,
    # A frozen client must not hold the row locks for ever that others wait for.
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
    # Nor may a statement whose client was killed: by itself the server only notices at its end.
    "client_connection_check_interval": CLIENT_CHECK_MS,
    # Published means on disk: a database that acknowledges earlier would lose the newest batches in a crash, but not their heads' readers.
    "synchronous_commit": "on",
    "timezone": "UTC",
}

_LINK = {
    "connect_timeout": 10,
    # A peer that is gone without a word ends a wait for its answer after 25 seconds, and one that takes no more bytes after 30: by itself the kernel
    # tries for a quarter of an hour, and a link that only waits hangs for two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def conninfo(url: str) -> str:
    """`url` with the settings that every session with the ledger's database has, of whichever driver."""
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    return make_dsn(url, options=options, application_name="tideline", **_LINK)
