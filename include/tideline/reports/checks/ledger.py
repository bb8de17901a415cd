"""Checks of the ledger: it answers, is the right database at the right version, can be written, and satisfies its laws."""

from collections.abc import Iterable, Sequence

from tideline import settings
from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, bad, listed, ok, warn
from tideline.domain.offsets import OffsetRange
from tideline.ledger import claimed_outputs, invariants, migrate, queries, versions
from tideline.ledger.claimed_outputs import ROWS, ClaimedOutput
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.reports.checks import guarded
from tideline.sinks.postgres import fitting, target_table

_ABOUT = "ledger"
_OLDEST_POSTGRES = 150_000
_MIGRATE = "run: tideline migrate"
_SILENT_SECONDS = 600
"""The age of a heartbeat from which an attempt is reported: ten times the age at which another run takes its batch over."""


def database(session: Ledger) -> Iterable[Check]:
    """Check the server, the database and the migrations. All other checks of the ledger depend on these."""
    server = invariants.server(session)
    where = f"database {server['database_name']} as {server['user_name']}, Postgres {server['version'].split()[0]}"
    yield ok(_ABOUT, "connection", where)
    if server["version_number"] < _OLDEST_POSTGRES:
        yield bad(_ABOUT, "version", f"expected Postgres 15 or newer, found {server['version']}", "upgrade the server")
    if server["encoding"] != migrate.ENCODING:
        yield bad(
            _ABOUT,
            "encoding",
            f"expected {migrate.ENCODING}, found {server['encoding']}: a record with another character fails its batch for ever",
            f"create a database with TEMPLATE template0 ENCODING '{migrate.ENCODING}', and move the ledger there by pg_dump and pg_restore",
        )
    if server["is_standby"]:
        yield bad(
            _ABOUT,
            "primary",
            "the server is a standby: it takes no writes",
            "let the URL lead to the primary; with several hosts in it, target_session_attrs=read-write finds it",
        )
    if server["is_airflows"]:
        yield bad(
            _ABOUT,
            "own database",
            f"Airflow keeps its metadata in {server['database_name']}",
            "give the ledger its own database; it may be on the same server",
        )
    else:
        yield ok(_ABOUT, "own database", "Airflow's metadata is elsewhere")
    if server["has_ledger"]:
        yield from guarded(_ABOUT, "migrations", lambda: [_migrations(session)])
    else:
        yield bad(_ABOUT, "migrations", "this database contains no ledger", _MIGRATE)


def _migrations(session: Ledger) -> Check:
    known = versions.migrations()
    if missing := versions.missing(session, known):
        names = listed(known[number][0] for number in missing)
        return bad(_ABOUT, "migrations", f"missing: {names}", _MIGRATE)
    return ok(_ABOUT, "migrations", "up to date")


def rights(session: Ledger, variable: str, duties: Sequence[str]) -> Check:
    """Check the privileges of the user of a variable, for what the processes that use it do."""
    user = invariants.server(session)["user_name"]
    if lacks := invariants.lacking_rights(session, duties):
        return bad(
            _ABOUT,
            "rights",
            f"{user}, of {variable}, lacks {listed(lacks)} for {', '.join(duties)}",
            "as the owner of the ledger: tideline migrate --roles; see docs/permissions.md",
        )
    return ok(_ABOUT, "rights", f"{user} has what {', '.join(duties)} need{'s' if len(duties) == 1 else ''}")


def user(session: Ledger, variable: str, duties: Sequence[str]) -> Check:
    """Check that the laws bind the user of a variable: a superuser and the owner of the ledger can switch them off."""
    server = invariants.server(session)
    name = f"{server['user_name']}, of {variable},"
    if server["is_superuser"]:
        found = f"{name} is a superuser: no law of the ledger binds it"
    elif server["acts_as_owner"]:
        found = f"{name} may act as {server['owner']}, the owner of the ledger: it can switch off the laws"
    else:
        return ok(_ABOUT, "user", f"{server['user_name']} is no superuser, and may not act as {server['owner']}")
    roles = "that role" if len(duties) == 1 else "those roles"
    return warn(
        _ABOUT,
        "user",
        found,
        f"enough for a trial. Else: tideline migrate --roles makes {', '.join(duties)}; give these processes the URL of {roles}: docs/permissions.md",
    )


def output(session: Ledger, pipeline: Pipeline) -> Check:
    """Check that the pipeline's table can be written."""
    table = pipeline.table_sink.table
    if unkept := fitting.unkept(target_table.described(session, pipeline), pipeline.table_sink):
        return bad(
            pipeline.name,
            "output",
            f"{table} does not keep rows as they are inserted: {listed(unkept)}",
            "let sink.table name an ordinary or a partitioned table, or change this one as said",
        )
    upserts = pipeline.table_sink.mode == "upsert"
    found = invariants.output_privileges(session, table, upsert=upserts)
    if not found["can_write"]:
        wanted = (
            f"USAGE on its schema, and SELECT, INSERT{', UPDATE' if upserts else ''} and DELETE on it"
            if found["exists"]
            else "CREATE on its schema, or create it"
        )
        user = invariants.server(session)["user_name"]
        return bad(
            pipeline.name, "output", f"{user} cannot write {table}", f"as the owner of it, grant {user} {wanted}"
        )
    there = "can be written" if found["exists"] else "does not exist yet; the first batch creates it"
    return ok(pipeline.name, "output", f"{table} {there}")


def claims(session: Ledger, pipeline: str, outputs: Sequence[ClaimedOutput]) -> Iterable[Check]:
    """Check that no other pipeline writes an output unless all share it, and that the pipeline has loaded no other output."""
    had = claimed_outputs.of(session, pipeline)
    for output in outputs:
        others = claimed_outputs.writers(session, pipeline, output)
        names = listed(row["pipeline"] for row in others)
        former = had.get(output.purpose)
        if [row for row in others if not (row["shared"] and output.shared)]:
            yield bad(
                pipeline,
                "claims",
                f"{output} is written by pipeline {names} as well",
                "declare another output, or sink.shared: true in all of them; see docs/runbook.md#output-of-another-pipeline",
            )
        elif former and output.purpose == ROWS and (former["kind"], former["place"]) != (output.kind, output.place):
            said = f"it has claimed {claimed_outputs.described(former['kind'], former['place'])}, its declaration names {output}"
            if not former["has_loaded"]:
                yield ok(pipeline, "claims", f"{said}; it has loaded nothing, so its next plan moves the claim")
                continue
            yield warn(
                pipeline,
                "claims",
                said,
                f"if the declaration is right: tideline move-output {pipeline} --reason ...; see docs/runbook.md#output-has-moved",
            )
        else:
            yield ok(
                pipeline, "claims", f"{output} is written by {f'pipeline {names} as well' if others else 'no other'}"
            )


def output_rows(session: Ledger, pipeline: Pipeline) -> Iterable[Check]:
    """Check that the pipeline's table has no rows above the heads that the ledger does not know: the next runs would conflict with them.

    Yields nothing if the table cannot be read.
    """
    table = pipeline.table_sink.table
    found = invariants.output_privileges(session, table)
    if not found["exists"] or not found["can_write"]:
        return
    if rows := invariants.unknown_rows(session, pipeline.name, table):
        places = (f"{row['topic']}/{row['partition']} from offset {row['kafka_offset']} on" for row in rows)
        yield bad(
            pipeline.name,
            "output rows",
            f"{table} holds rows that no batch of the ledger has written: {listed(places)}",
            "was the ledger restored without its tables? The table's key refuses these offsets until the rows are deleted: "
            "docs/operating.md#restoring-the-ledger",
        )
    else:
        yield ok(pipeline.name, "output rows", f"{table} has no rows above the heads that the ledger does not know")


def staging(session: Ledger) -> Iterable[Check]:
    """Check for staging data of dead attempts. It only uses disk space."""
    tables = invariants.orphan_staging(session)
    rows = invariants.orphan_rows(session)
    if not tables and not rows["n_counts"] and not rows["n_rejects"]:
        yield ok(_ABOUT, "staging", "nothing is left over")
        return
    megabytes = sum(row["n_bytes"] for row in tables) / 1e6
    yield warn(
        _ABOUT,
        "staging",
        f"no attempt writes to {len(tables)} tables of {megabytes:,.1f} MB: {listed(map(_staged, tables)) or 'none'}; "
        f"{rows['n_counts']} counts and {rows['n_rejects']} rejects are left over",
        "the DAG `upkeep` clears what belongs to an attempt; drop other tables by hand",
    )


def _staged(row: Row) -> str:
    return (
        f"{row['table_name']} of batch {row['batch_id']} attempt {row['fence']}"
        if row["batch_id"]
        else str(row["table_name"])
    )


def laws(session: Ledger, name: str) -> Iterable[Check]:
    """Check the invariants of a pipeline's rows in the ledger, and look for attempts without heartbeats."""
    yield _tiling(session, name)
    yield _sums(name, "counts", invariants.miscounts(session, name), "counts add up in every published range")
    rejects = invariants.reject_miscounts(session, name)
    yield _sums(name, "rejects", rejects, "as many rejects are kept as were counted")
    silent = invariants.silent_attempts(session, name, seconds=_SILENT_SECONDS)
    if silent:
        lines = (f"batch {row['batch_id']} (pid {row['pid']} on {row['host']})" for row in silent)
        yield warn(
            name,
            "attempts",
            f"no heartbeat for more than {_SILENT_SECONDS // 60} minutes: {listed(lines)}",
            "the next run takes the batch over; to do so sooner: tideline retry BATCH --reason ...",
        )
    else:
        yield ok(name, "attempts", "none has missing heartbeats")


def _tiling(session: Ledger, name: str) -> Check:
    rows = queries.coverage(session, name)
    broken = [
        f"{row['topic']}/{row['partition']} {OffsetRange(start, end)}" for row in rows for start, end in row["missing"]
    ]
    if broken:
        return bad(
            name,
            "coverage",
            f"no batch and no hole accounts for {listed(broken)}",
            "was the database restored, or a trigger disabled? Compare with a backup; tideline coverage lists all",
        )
    return ok(name, "coverage", f"tiles [start, head) of {len(rows)} streams")


def _sums(name: str, check: str, wrong: list[Row], fine: str) -> Check:
    if not wrong:
        return ok(name, check, fine)
    places = (
        f"batch {row['batch_id']} {row['topic']}/{row['partition']} {OffsetRange(row['start_offset'], row['end_offset'])}"
        for row in wrong
    )
    return bad(
        name,
        check,
        f"do not add up: {listed(places)}",
        "rows were changed with the laws disabled. Load the batch again: tideline replay PIPELINE --batch N --reason ...",
    )


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
