"""What a role may not do, Postgres itself refuses: each verb on each table, and each way around the laws."""

from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.errors import InsufficientPrivilege

from given_ledger import granted_rights, ledgers
from given_ledger.ledgers import execute, query, refused
from loads import by_hand
from tideline.ledger import attempts, rights
from tideline.sinks.staging_tables import staging_name

NAME = f"attempt_{9:032x}"
STAGED = f"tideline_staging.{NAME}"
VERBS = {
    "SELECT": "SELECT FROM {table}",
    "INSERT": "INSERT INTO {table} DEFAULT VALUES",
    "UPDATE": "UPDATE {table} SET {column} = DEFAULT",
    "DELETE": "DELETE FROM {table}",
}
ON_ANY_TABLE = (
    "TRUNCATE {table} CASCADE",
    "DROP TABLE {table} CASCADE",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "ALTER TABLE {table} DISABLE RULE mine",
    "ALTER TABLE {table} OWNER TO CURRENT_USER",
    "ALTER TABLE {table} ADD COLUMN mine text",
    "ALTER TABLE {table} NO INHERIT {table}",
    "CREATE TRIGGER mine BEFORE INSERT ON {table} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE mine AS ON DELETE TO {table} DO INSTEAD NOTHING",
    "CREATE INDEX ON {table} ({column})",
    "CREATE POLICY mine ON {table}",
    "GRANT ALL ON {table} TO PUBLIC",
)
ON_ANY_VIEW = (
    "DROP VIEW {view} CASCADE",
    "ALTER VIEW {view} SET (security_invoker = false)",
    "ALTER VIEW {view} OWNER TO CURRENT_USER",
    "CREATE OR REPLACE VIEW {view} AS SELECT 1 AS mine",
    "GRANT ALL ON {view} TO PUBLIC",
)
ON_ANY_FUNCTION = (
    "DROP FUNCTION {function} CASCADE",
    "ALTER FUNCTION {function} SECURITY INVOKER",
    "ALTER FUNCTION {function} RESET search_path",
    "ALTER FUNCTION {function} OWNER TO CURRENT_USER",
)
ANYWHERE = (
    "SET session_replication_role = replica",
    "SET SESSION AUTHORIZATION {admin}",
    "CREATE SCHEMA mine",
    "CREATE TABLE tideline.mine ()",
    "CREATE TABLE public.mine ()",
    "CREATE FUNCTION tideline.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE c AS 'mine'",
    "CREATE ROLE mine",
    "CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION tideline.refuse()",
    "ALTER SCHEMA tideline RENAME TO mine",
    "ALTER SCHEMA tideline_staging OWNER TO CURRENT_USER",
    "DROP SCHEMA tideline CASCADE",
    "DROP SCHEMA tideline_staging CASCADE",
    "GRANT USAGE ON SCHEMA tideline TO PUBLIC",
    "SELECT setval('tideline.event_event_id_seq', 1)",
    "SELECT nextval('tideline.batch_batch_id_seq')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_read_file('postgresql.conf')",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/mine'",
)
PRUNED = "SET LOCAL tideline.prune_before = '2100-01-01'; DELETE FROM tideline.event"


@pytest.fixture(scope="module")
def warehouse(postgres):
    with granted_rights.warehouse(postgres) as made:
        by_hand.everything(made.urls)  # there is something to read and to delete
        made.run(f"CREATE TABLE {STAGED} (mine int)", duty="writer")
        made.run(f"GRANT SELECT, INSERT ON {STAGED} TO {made.role('stager')}", duty="writer")
        yield made


def names(warehouse, sql: str) -> list[str]:
    connection = psycopg2.connect(warehouse.admin)
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return [name for (name,) in cursor.fetchall()]


def may(duty: str) -> dict[str, set[str]]:
    """Return what a role may do, by table."""
    views = {f"tideline.{view}" for view in rights.views()}
    found = {
        name: set() for name in (*(f"tideline.{table}" for table in rights.tables()), "ads.impressions", "ads.offers")
    }
    for right in granted_rights.granted(duty):
        found.setdefault(right.on, set()).add(right.privilege)
    return {table: privileges for table, privileges in found.items() if table not in views}


def on_views(duty: str) -> Iterator[str]:
    """Yield what a role may not do with the views. No role can change rows by one: each joins tables."""
    for view in rights.views():
        yield from (text.format(view=f"tideline.{view}") for text in ON_ANY_VIEW)
        if duty != "reader":
            yield f"SELECT FROM tideline.{view}"


def forbidden(warehouse, duty: str) -> Iterator[str]:
    """Yield every statement that a role may not run."""
    first = "SELECT attrelid::regclass::text || ' ' || attname FROM pg_attribute WHERE attnum = 1 AND attrelid >= 16384"
    columns = dict(line.split(" ", 1) for line in names(warehouse, first))
    for table, privileges in may(duty).items():
        if table in columns:
            named = {"table": table, "column": columns[table]}
            yield from (text.format(**named) for verb, text in VERBS.items() if verb not in privileges)
            yield from (text.format(**named) for text in ON_ANY_TABLE)
    staged = {"operator": (), "writer": tuple(VERBS), "stager": ("SELECT", "INSERT"), "reader": ()}[duty]
    yield from (text.format(table=STAGED, column="mine") for verb, text in VERBS.items() if verb not in staged)
    if duty != "writer":
        yield from (f"DROP TABLE {STAGED}", f"TRUNCATE {STAGED}", f"ALTER TABLE {STAGED} ADD COLUMN yours int")
        yield "CREATE TABLE tideline_staging.mine ()"
    # Postgres itself has made those of the range type.
    functions = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'tideline'::regnamespace AND proname NOT LIKE 'names%'"
    for function in names(warehouse, functions):
        yield from (text.format(function=function) for text in ON_ANY_FUNCTION)
    if duty in {"writer", "stager"}:  # a trigger's function acts as the owner: no role may put it on a table of its own
        own = "tideline_staging.own" if duty == "writer" else "own"
        for function in names(warehouse, f"{functions} AND prorettype = 'trigger'::regtype"):
            make = f"CREATE {'' if duty == 'writer' else 'TEMPORARY '}TABLE {own} (mine int)"
            yield f"{make}; CREATE TRIGGER mine AFTER INSERT ON {own} EXECUTE FUNCTION {function}"
    if duty != "operator":
        yield "SELECT tideline.prune_events('p', 1)"
    if duty not in {"operator", "writer"}:
        yield f"SELECT tideline.drop_staging('{NAME}')"
    yield from (f"SET ROLE {warehouse.role(other)}" for other in rights.DUTIES if other != duty)
    yield from (f"GRANT {warehouse.role(other)} TO CURRENT_USER" for other in rights.DUTIES if other != duty)
    yield from (text.format(admin="postgres") for text in ANYWHERE)
    yield PRUNED
    yield from on_views(duty)


@pytest.mark.parametrize("duty", rights.GRANTED)
def test_postgres_refuses_what_a_role_may_not_do(warehouse, duty):
    connection = psycopg2.connect(warehouse.url(duty))
    allowed, tried = [], 0
    for statement in forbidden(warehouse, duty):
        tried += 1
        with connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except InsufficientPrivilege:
                pass
            except psycopg2.Error as error:
                allowed.append(f"{statement}: {error}")
            else:
                # Of a right that a role cannot grant, Postgres only warns.
                if "no privileges were granted" not in "".join(connection.notices):
                    allowed.append(statement)
        connection.rollback()
        connection.notices.clear()
    connection.close()
    assert not allowed, "\n".join(allowed)
    assert tried > 400


def test_the_date_to_prune_by_counts_for_the_owner_only(warehouse):
    """Not even a superuser deletes an event by it."""
    warehouse.run("SET session_replication_role = replica; UPDATE tideline.event SET at = at - interval '3 days'")
    with pytest.raises(psycopg2.errors.RestrictViolation, match="its rows are history"):
        warehouse.run(PRUNED)
    granted = f"GRANT SELECT, DELETE ON tideline.event TO {warehouse.role('operator')}"
    warehouse.run(granted, duty="owner")
    try:
        with pytest.raises(psycopg2.errors.RestrictViolation, match="its rows are history"):
            warehouse.run(PRUNED, duty="operator")
    finally:
        warehouse.run(granted.replace("GRANT", "REVOKE").replace(" TO ", " FROM "), duty="owner")
    warehouse.run(f"{PRUNED} WHERE batch_id IS NULL", duty="owner")


@pytest.mark.parametrize("duty", ["operator", "writer"])
def test_an_event_shows_the_login_whatever_name_a_role_says(warehouse, duty):
    name = by_hand.everything(warehouse.urls)
    warehouse.run(
        "SET LOCAL tideline.actor = 'ada'; INSERT INTO tideline.event (action, pipeline, login, detail)"
        f" VALUES ('retry', '{name}', 'ada', '{{\"mine\": true}}')",
        duty=duty,
    )
    of_name = f"FROM tideline.event WHERE pipeline = '{name}'"
    assert names(warehouse, f"SELECT login {of_name} AND actor = 'ada' AND detail ? 'mine'") == [warehouse.role(duty)]
    both = sorted(warehouse.role(loading) for loading in ("operator", "writer"))
    assert names(warehouse, f"SELECT DISTINCT login {of_name} ORDER BY 1") == both, "also of what laws record"


@pytest.mark.parametrize("days", ["0", "-1", "NULL"])
def test_events_of_the_last_day_are_not_pruned_for_any_role(warehouse, days):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="kept for at least a day"):
        warehouse.run(f"SELECT tideline.prune_events('p', {days})", duty="operator")


@pytest.mark.parametrize(
    "name", ["attempt_1", f"{NAME}; DROP SCHEMA tideline", f"x{NAME}", 'x"', "../tideline.event", "", "pg_class"]
)
def test_only_a_staging_table_is_dropped_by_its_name(warehouse, name):
    with pytest.raises(psycopg2.errors.InvalidName):
        warehouse.run(f"SELECT tideline.drop_staging('{name}')", duty="writer")


def test_the_staging_of_an_attempt_that_holds_its_batch_is_not_dropped(ledger):
    (stream,) = ledgers.start_streams(ledger, 1)
    batch_id = ledgers.plan(ledger, {stream: (0, 10)})
    attempt = ledgers.claim(ledger, batch_id)
    tables = [f"{staging_name(attempt)}{rest}" for rest in ("", "_state", "_deleted")]
    for table in tables:
        execute(ledger, f"CREATE TABLE tideline_staging.{table} ()")
        assert "its attempt holds batch" in refused(ledger, f"SELECT tideline.drop_staging('{table}')")
    attempts.fail(ledger, attempt, "a problem")
    for table in tables:
        execute(ledger, f"SELECT tideline.drop_staging('{table}')")
    assert query(ledger, "SELECT tablename FROM pg_tables WHERE schemaname = 'tideline_staging'") == []


def test_a_role_cannot_put_an_operator_of_its_own_before_that_of_a_law(warehouse):
    """The role of drivers can create functions and operators in the schema of staging tables."""
    name = by_hand.everything(warehouse.urls)
    warehouse.run(
        """
        CREATE FUNCTION tideline_staging.allowed(text, tideline.batch_state) RETURNS text LANGUAGE sql AS $$SELECT 'planned>writing'$$;
        CREATE OPERATOR tideline_staging.|| (FUNCTION = tideline_staging.allowed, LEFTARG = text, RIGHTARG = tideline.batch_state);
        """,
        duty="writer",
    )
    change = f"UPDATE tideline.batch SET state = 'superseded' WHERE pipeline = '{name}' AND state = 'abandoned'"
    for path in ("tideline_staging, pg_catalog", "pg_catalog, tideline_staging"):
        with pytest.raises(psycopg2.errors.RestrictViolation, match="no way from abandoned to superseded"):
            warehouse.run(f"SET LOCAL search_path = {path}; {change}", duty="writer")


def test_every_function_of_the_ledger_has_a_search_path_of_its_own(warehouse):
    """Except those that Postgres puts into a query, which then have that of the query; laws call them with their own."""
    found = names(
        warehouse,
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'tideline'::regnamespace"
        " AND proname NOT LIKE 'names%' AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp'] ORDER BY 1",
    )
    assert found == ["folding", "undoing"]
