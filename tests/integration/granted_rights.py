"""The statements of docs/permissions.md, and a database in which they were run."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg2
from psycopg2.extensions import make_dsn

from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local import secret
from tideline.local.postgres import Postgres
from tideline.settings import PROJECT

PAGE = (PROJECT / "docs" / "permissions.md").read_text(encoding="utf-8")
ONCE, AFTER_EACH_MIGRATION, OUTPUT = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LOAD, LOOK, OWNER = "tideline_load", "tideline_look", "tideline_owner"
_EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"
_PASSWORD = secret.marked("hush")


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege on one object, of one role."""

    privilege: str
    on: str
    role: str

    def __str__(self) -> str:
        return f"{self.privilege} ON {self.on}"


def rights(role: str) -> list[Right]:
    """Return every single right that the page grants to a role."""
    found = []
    for privileges, objects, roles in re.findall(
        r"GRANT ([A-Z, ]+) ON\s+([^;]+?)\s+TO ([^;]+);", ONCE + AFTER_EACH_MIGRATION + OUTPUT
    ):
        if role in re.findall(r"\w+", roles):
            found += [
                Right(one, on, role) for one in re.findall(r"\w+", privileges) for on in re.split(r",\s+", objects)
            ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """A database with the page's roles, a ledger, and the example's tables."""

    admin: str
    """The URL of a superuser."""
    names: dict[str, str]
    """What the page's database and roles are called on this server, which other tests share."""

    def url(self, role: str) -> str:
        return make_dsn(self.admin, user=self.names[role], password=_PASSWORD)

    def run(self, sql: str, *, role: str | None = None) -> None:
        """Run statements of the page, as a role of it or as the superuser."""
        for name, here in self.names.items():
            sql = re.sub(rf"\b{name}\b", here, sql)
        connection = psycopg2.connect(self.url(role) if role else self.admin)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(sql)
        finally:
            connection.close()

    @contextmanager
    def without(self, right: Right) -> Iterator[None]:
        """Take a right away for a while."""
        self.run(f"REVOKE {right} FROM {right.role}")
        try:
            yield
        finally:
            self.run(f"GRANT {right} TO {right.role}")


@contextmanager
def warehouse(postgres: Postgres) -> Iterator[Warehouse]:
    """Create a database and follow the page: the administrator, the owner's migration, the owner's grants."""
    here = uuid4().hex[:8]
    names = {name: f"{name}_{here}" for name in ("warehouse", OWNER, LOAD, LOOK)}
    postgres.ensure_database(names["warehouse"])
    made = Warehouse(admin=postgres.url(names["warehouse"]), names=names)
    made.run(ONCE)
    made.run("".join(f"ALTER ROLE {role} PASSWORD '{_PASSWORD}';" for role in (OWNER, LOAD, LOOK)))
    with Ledger(made.url(OWNER), actor="owner") as ledger:
        migrate(ledger)
    made.run(AFTER_EACH_MIGRATION, role=OWNER)
    for file in ("target.sql", "offers.sql"):
        made.run((_EXAMPLE / file).read_text(encoding="utf-8"), role=OWNER)
    made.run(OUTPUT, role=OWNER)
    yield made
    server = psycopg2.connect(postgres.url("postgres"))
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {names['warehouse']} WITH (FORCE)")
        for role in (OWNER, LOAD, LOOK):
            cursor.execute(f"DROP ROLE {names[role]}")
    server.close()
