"""Settings of every session with the ledger's database: of the ledger's own sessions, and of Spark tasks with another driver."""

from psycopg2.extensions import make_dsn

LOCK_TIMEOUT_MS = 30_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000
CLIENT_CHECK_MS = 5_000

SESSION = {
    "lock_timeout": LOCK_TIMEOUT_MS,
    # A frozen client must not hold row locks for ever: other sessions wait for them.
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
    # The same for a statement whose client was killed: without this the server notices only when the statement ends.
    "client_connection_check_interval": CLIENT_CHECK_MS,
    # Published means on disk. With an earlier acknowledgement, a crash would lose the newest batches after readers have
    # already seen them.
    "synchronous_commit": "on",
    "timezone": "UTC",
}

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
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    return make_dsn(url, options=options, application_name="tideline", **_LINK)
