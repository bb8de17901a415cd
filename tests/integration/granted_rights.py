"""A database whose ledger has the roles of `tideline migrate --roles`, and the grants on the output of docs/permissions.md."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg2
from psycopg2.extensions import make_dsn

from loading_by_hand import Urls
from tideline.ledger import rights, roles
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local import secret
from tideline.local.postgres import Postgres
from tideline.settings import PROJECT

# Not that of PROJECT: a copy of the product, without a guard, has no docs.
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "permissions.md").read_text(encoding="utf-8")
CLOSED, OUTPUT = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
_EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"
_PASSWORD = secret.marked("hush")


@dataclass(frozen=True, slots=True)
class Granted:
    """One privilege on one object, of one role."""

    privilege: str
    on: str
    duty: str

    def __str__(self) -> str:
        return f"{self.privilege} ON {self.on} of the {self.duty}"


def granted(duty: str) -> list[Granted]:
    """Return every single right that a role has: on the ledger and on its database, and on the output as the page shows."""
    found = [
        Granted(
            one.privilege,
            {"TABLE": one.name, "DATABASE": "DATABASE warehouse"}.get(one.kind, f"{one.kind} {one.name}"),
            duty,
        )
        for one in rights.rights(duty)
    ]
    for privileges, objects, role in re.findall(r"GRANT ([A-Z, ]+) ON\s+([^;]+?)\s+TO (\w+);", OUTPUT):
        if role == f"{roles.PREFIX}{duty}":
            found += [
                Granted(one, on, duty) for one in re.findall(r"\w+", privileges) for on in re.split(r",\s+", objects)
            ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """A database with the roles, a ledger, and the example's tables."""

    admin: str = field(repr=False)
    """The URL of a superuser."""
    name: str
    prefix: str

    def url(self, duty: str) -> str:
        return make_dsn(self.admin, user=self.role(duty), password=_PASSWORD)

    def role(self, duty: str) -> str:
        return f"{self.prefix}{duty}"

    @property
    def urls(self) -> Urls:
        """The URLs of the roles that load."""
        return Urls(operator=self.url("operator"), writer=self.url("writer"), stager=self.url("stager"))

    def run(self, sql: str, *, duty: str | None = None) -> None:
        """Run statements of the page, as one of the roles or as the superuser."""
        ours = re.sub(rf"\b{roles.PREFIX}(?=({'|'.join(rights.DUTIES)})\b)", self.prefix, sql)
        connection = psycopg2.connect(self.url(duty) if duty else self.admin)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(re.sub(r"\bwarehouse\b", self.name, ours))
        finally:
            connection.close()

    @contextmanager
    def without(self, right: Granted) -> Iterator[None]:
        """Take a right away for a while."""
        self.run(self.revoking(right))
        try:
            yield
        finally:
            self.run(self.granting(right))

    def granting(self, right: Granted) -> str:
        return f"GRANT {right.privilege} ON {right.on} TO {self.role(right.duty)};"

    def revoking(self, right: Granted) -> str:
        return f"REVOKE {right.privilege} ON {right.on} FROM {self.role(right.duty)};"


@contextmanager
def warehouse(postgres: Postgres) -> Iterator[Warehouse]:
    """Create a database as an administrator does, with the example's tables, which belong to the owner."""
    here = uuid4().hex[:8]
    name = f"warehouse_{here}"
    postgres.ensure_database(name)
    made = Warehouse(admin=postgres.url(name), name=name, prefix=f"r{here}_")
    with Ledger(made.admin, actor="admin") as ledger:
        wanted = roles.setup(ledger, made.prefix)
        roles.prepare(ledger, wanted)
        migrate(ledger)
        roles.grant(ledger, wanted.names)
    made.run(CLOSED)
    made.run("".join(f"ALTER ROLE {made.role(duty)} PASSWORD '{_PASSWORD}';" for duty in rights.DUTIES))
    for file in ("target.sql", "offers.sql"):
        made.run((_EXAMPLE / file).read_text(encoding="utf-8"), duty="owner")
    made.run(OUTPUT, duty="owner")
    yield made
    server = psycopg2.connect(postgres.url("postgres"))
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
        for duty in rights.DUTIES:
            cursor.execute(f"DROP ROLE {made.role(duty)}")
    server.close()
