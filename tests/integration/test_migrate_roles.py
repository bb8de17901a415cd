"""`tideline migrate --roles` creates the roles and grants them exactly what they need, also if it is repeated or runs twice at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from loads import by_hand
from loads.by_hand import Urls
from servers.cli_process import Cli
from tideline.deployment import secret
from tideline.ledger import rights, roles
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.versions import migrations
from tideline.reports.deployment import apply_with_roles

PASSWORD = secret.marked("hush")
ACCESS = """
    SELECT relname::text, relowner::regrole::text, relacl::text FROM pg_class
    WHERE relnamespace IN ('tideline'::regnamespace, 'tideline_staging'::regnamespace)
    UNION ALL SELECT nspname, nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE nspname LIKE 'tideline%'
    UNION ALL SELECT oid::regprocedure::text, proowner::regrole::text, proacl::text FROM pg_proc WHERE pronamespace = 'tideline'::regnamespace
    ORDER BY 1
    """


EVERYONES = """
    SELECT name FROM (
        SELECT 'table ' || oid::regclass, coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
        FROM pg_class WHERE relnamespace IN ('tideline'::regnamespace, 'tideline_staging'::regnamespace)
        UNION ALL SELECT 'function ' || oid::regprocedure, coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc WHERE pronamespace IN ('tideline'::regnamespace, 'tideline_staging'::regnamespace)
          AND proname NOT LIKE 'names%'
        UNION ALL SELECT 'schema ' || nspname, coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace WHERE nspname LIKE 'tideline%'
    ) AS found (name, access)
    WHERE EXISTS (SELECT FROM aclexplode(access) WHERE grantee = 0) ORDER BY name COLLATE "C"
    """
"""What everyone has a right on, but for the functions of the range type, which Postgres itself has made."""
OF_EVERYONE = (
    "covering(bigint,int8range)",
    "folding(text)",
    "has_loaded(text)",
    "may_have_committed(text)",
    "replaying(bigint,int8range)",
    "reserving(bigint,int8range)",
    "undoing(text)",
)
ON_COLUMNS = "SELECT FROM pg_attribute WHERE attacl <> '{}' AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'tideline'::regnamespace)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """A database without a ledger, and a command line that has its URL."""

    admin: str
    name: str
    prefix: str
    cli: Cli

    def run(self, sql: str, *, url: str | None = None) -> list[tuple[object, ...]]:
        connection = psycopg2.connect(url or self.admin)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def role(self, duty: str) -> str:
        return f"{self.prefix}{duty}"

    def user(self, name: str, rights: str = "") -> str:
        """Create a user, and return the URL."""
        self.run(f"CREATE ROLE {self.prefix}{name} LOGIN PASSWORD '{PASSWORD}' {rights}")
        return make_dsn(self.admin, user=f"{self.prefix}{name}", password=PASSWORD)

    def migrate(self, *arguments: str, url: str | None = None, code: int = 0) -> str:
        """Run `tideline migrate --roles`, and return what it prints."""
        shell = replace(self.cli, variables={**self.cli.variables, "TIDELINE_LEDGER_URL": url or self.admin})
        done = shell("migrate", "--roles", "--prefix", self.prefix, *arguments, code=code)
        return done.stderr if code else done.stdout

    def apply(self, *, url: str | None = None) -> None:
        """Do what `tideline migrate --roles` does, in this process."""
        with pytest.MonkeyPatch.context() as variables:
            variables.setenv("TIDELINE_LEDGER_URL", url or self.admin)
            apply_with_roles(self.prefix)

    def access(self) -> list[tuple[object, ...]]:
        """Return owners and rights of everything in the ledger."""
        return self.run(ACCESS)

    def users(self) -> set[object]:
        return {name for (name,) in self.run(f"SELECT rolname::text FROM pg_roles WHERE rolname LIKE '{self.prefix}%'")}


@pytest.fixture
def empty(postgres, cli) -> Iterator[Empty]:
    here = uuid4().hex[:8]
    name = f"empty_{here}"
    postgres.ensure_database(name)
    made = Empty(admin=postgres.url(name), name=name, prefix=f"r{here}_", cli=cli)
    yield made
    server = psycopg2.connect(postgres.url("postgres"))
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
        for role in sorted(
            made.run(f"SELECT rolname FROM pg_roles WHERE rolname LIKE 'r{here}_%'", url=postgres.url("postgres"))
        ):
            cursor.execute(f"DROP OWNED BY {role[0]}")
            cursor.execute(f"DROP ROLE {role[0]}")
    server.close()


def test_the_roles_are_created_and_a_second_call_changes_nothing(empty):
    said = empty.migrate()
    assert "applied 0001_ledger.sql" in said
    for duty in rights.DUTIES:
        assert empty.role(duty) in said
    assert {owner for _, owner, _ in empty.access()} <= {empty.role("owner"), "postgres"}
    assert empty.users() == {empty.role(duty) for duty in rights.DUTIES}
    before = empty.access()
    assert "the ledger is up to date" in empty.migrate()
    assert empty.access() == before


def test_a_right_that_a_role_should_not_have_is_taken_away(empty):
    empty.apply()
    before = empty.access()
    empty.run(
        f"GRANT TRUNCATE, DELETE ON tideline.event TO {empty.role('operator')};"
        f"GRANT CREATE ON SCHEMA tideline TO {empty.role('reader')};"
        f"GRANT EXECUTE ON FUNCTION tideline.prune_events TO {empty.role('stager')};"
        f"REVOKE INSERT ON tideline.batch FROM {empty.role('operator')}"
    )
    assert empty.access() != before
    empty.apply()
    assert {line for line in empty.access() if "r" in str(line[2])} == {line for line in before if "r" in str(line[2])}


def test_a_right_that_everyone_should_not_have_is_taken_away(empty):
    """And rights on sequences, with which a role could number what others insert."""
    empty.apply()
    before = empty.access()
    empty.run(
        "GRANT SELECT ON tideline.reject TO PUBLIC; GRANT USAGE ON SCHEMA tideline_staging TO PUBLIC;"
        "GRANT EXECUTE ON FUNCTION tideline.drop_staging TO PUBLIC; GRANT UPDATE ON SEQUENCE tideline.event_event_id_seq TO PUBLIC;"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA tideline TO {empty.role('writer')};"
        f"GRANT UPDATE (reason) ON tideline.coverage TO {empty.role('operator')};"
        "CREATE FUNCTION tideline.later() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';"
        f"ALTER FUNCTION tideline.later() OWNER TO {empty.role('owner')}"
    )
    assert empty.access() != before
    empty.apply()
    assert empty.run(EVERYONES) == [(f"function tideline.{name}",) for name in OF_EVERYONE]
    assert empty.run(ON_COLUMNS) == []
    assert not [
        name for name, _, access in empty.access() if "_seq" in str(name) and empty.role("writer") in str(access)
    ]


def test_everyone_may_execute_only_what_the_laws_and_queries_of_every_role_call(empty):
    """In a ledger without roles as well: or a function that acts as the owner, and that a later migration adds, would be open to all."""
    with Ledger(empty.admin, actor="test") as ledger:
        migrate(ledger)
    assert empty.run(EVERYONES) == [(f"function tideline.{name}",) for name in OF_EVERYONE]


def test_a_dry_run_prints_the_statements_and_changes_nothing(empty):
    said = empty.migrate("--dry-run")
    assert empty.users() == set()
    assert empty.run("SELECT to_regnamespace('tideline')") == [(None,)]
    assert f'CREATE ROLE "{empty.role("stager")}" LOGIN;' in said
    assert f'GRANT INSERT ON TABLE "tideline"."staged_reject" TO "{empty.role("stager")}";' in said
    before, after = said.split("-- as " + empty.role("owner"))
    empty.run(before)  # by hand, it does the same
    with Ledger(empty.admin, actor="test") as ledger:
        roles.become_owner(ledger, empty.role("owner"))
        migrate(ledger)
    empty.run(f"SET ROLE {empty.role('owner')}; " + after.partition("\n")[2])
    by_hand = empty.access()
    empty.apply()
    assert empty.access() == by_hand


def test_who_may_not_create_roles_gets_the_statements_for_who_may(empty):
    url = empty.user("me")
    said = empty.migrate(url=url, code=20)
    assert "roles are missing in database" in said
    assert PASSWORD not in said
    statements = [line for line in said.splitlines() if line.startswith(("CREATE ROLE", "GRANT"))]
    assert len(statements) == len(rights.DUTIES) + sum(len(rights.of_database(duty)) for duty in rights.DUTIES)
    empty.run("\n".join(statements))
    assert f"{empty.prefix}me may not act as it" in empty.migrate(url=url, code=20)
    empty.run(f"ALTER ROLE {empty.role('owner')} PASSWORD '{PASSWORD}'")
    empty.apply(url=make_dsn(empty.admin, user=empty.role("owner"), password=PASSWORD))
    assert ("batch", empty.role("owner")) in {line[:2] for line in empty.access()}


def test_a_user_who_may_create_roles_needs_no_superuser(empty):
    url = empty.user("dba", "CREATEROLE")
    empty.run(f"ALTER DATABASE {empty.name} OWNER TO {empty.prefix}dba")
    empty.apply(url=url)
    assert ("batch", empty.role("owner")) in {line[:2] for line in empty.access()}
    empty.apply(url=url)


def test_a_ledger_that_exists_keeps_its_owner(empty):
    url = empty.user("old")
    empty.run(f"GRANT CREATE ON DATABASE {empty.name} TO {empty.prefix}old")
    with Ledger(url, actor="test") as ledger:
        migrate(ledger)
    empty.apply()
    assert {owner for name, owner, _ in empty.access() if name == "batch"} == {f"{empty.prefix}old"}
    assert empty.role("owner") not in empty.users()


def test_what_a_later_migration_creates_belongs_to_the_owner(empty):
    """Whoever runs it: else a role of the owner, such as that of a trigger, could not read it."""
    empty.apply()
    more = {**migrations(), len(migrations()) + 1: ("9999_more.sql", "CREATE TABLE tideline.more (id bigint)")}
    with Ledger(empty.admin, actor="test") as ledger:
        names = roles.recorded(ledger)
        assert names == {duty: empty.role(duty) for duty in rights.DUTIES}
        roles.become_owner(ledger, names["owner"])
        assert migrate(ledger, more) == ["9999_more.sql"]
    assert ("more", empty.role("owner")) in {line[:2] for line in empty.access()}


def test_a_role_that_is_not_the_owner_migrates_nothing(empty):
    empty.apply()
    empty.run(f"ALTER ROLE {empty.role('operator')} PASSWORD '{PASSWORD}'")
    url = make_dsn(empty.admin, user=empty.role("operator"), password=PASSWORD)
    shell = replace(empty.cli, variables={**empty.cli.variables, "TIDELINE_LEDGER_URL": url})
    for arguments in ((), ("--roles", "--prefix", empty.prefix)):
        said = shell("migrate", *arguments, code=20).stderr
        assert f"the ledger belongs to {empty.role('owner')}, and {empty.role('operator')} may not act as it" in said


def test_two_at_once_are_safe(empty, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", empty.admin)
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(apply_with_roles, empty.prefix) for _ in range(3)]:
            done.result()
    before = empty.access()
    empty.apply()
    assert empty.access() == before


def test_one_user_may_have_several_duties(empty):
    empty.apply()
    url = empty.user("etl")
    empty.run(f"GRANT {', '.join(empty.role(duty) for duty in ('operator', 'writer', 'stager'))} TO {empty.prefix}etl")
    empty.run(
        "CREATE SCHEMA ads; CREATE TABLE ads.impressions (impression_id text, offer_id bigint, price numeric(18, 6), shown_at timestamptz,"
        " kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint,"
        " PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)); CREATE TABLE ads.offers (offer_id bigint);"
        f"GRANT USAGE ON SCHEMA ads TO {empty.prefix}etl; GRANT ALL ON ALL TABLES IN SCHEMA ads TO {empty.prefix}etl"
    )
    by_hand.everything(Urls(operator=url, writer=url, stager=url))


@pytest.mark.parametrize("prefix", ["", 'x"; DROP SCHEMA tideline; --'])
def test_a_prefix_that_makes_no_names_is_refused(empty, prefix):
    said = empty.cli("migrate", "--roles", "--prefix", prefix, code=2)
    assert "expected lower case letters" in said.stderr
