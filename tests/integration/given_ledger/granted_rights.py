"""A database whose ledger has the roles of `tideline migrate --roles`, with the grants on the output; and which rights the roles need."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from loads.by_hand import Urls
from tideline.deployment import secret
from tideline.ledger import connection, rights, roles
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import translated
from tideline.ledger.migrate import migrate
from tideline.settings import PROJECT
from tideline_stack.postgres import Postgres

# Not that of PROJECT: a copy of the product, without a guard, has no docs.
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "permissions.md").read_text(encoding="utf-8")
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


_DENIED = re.compile(r"permission denied for table (\w+)")
Execute = Callable[[Any, Any, Mapping[str, Any]], None]


class Needs:
    """The rights that were taken away, and those that a statement needed and got back."""

    def __init__(self, warehouse: Warehouse, rights: Iterable[Granted]) -> None:
        self._warehouse = warehouse
        self._missing = list(rights)
        self.needed: list[Granted] = []

    @contextmanager
    def looked_for(self) -> Iterator[None]:
        """Take all rights away for a while, and grant them as statements of the block need them."""
        self._revoke(self._missing)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(connection, "_execute", self._instead_of(connection._execute))
                yield
        finally:
            self._grant(self._missing)

    def _grant(self, rights: Sequence[Granted]) -> None:
        for right in rights:
            self._warehouse.run(self._warehouse.granting(right))

    def _revoke(self, rights: Sequence[Granted]) -> None:
        for right in rights:
            self._warehouse.run(self._warehouse.revoking(right))

    def _instead_of(self, execute: Execute) -> Execute:
        def tried(cursor: Any, query: Any, parameters: Mapping[str, Any]) -> str | None:
            """Execute a statement; return the table if it is refused for a right on one."""
            cursor.execute("SAVEPOINT before_it")
            try:
                execute(cursor, query, parameters)
            except psycopg2.errors.InsufficientPrivilege as error:
                cursor.execute("ROLLBACK TO SAVEPOINT before_it")
                refused = translated(error)
                assert refused.entry == "ledger-refuses", refused
                found = _DENIED.search(str(refused))
                assert found, refused
                return found[1]
            return None

        def until_it_may(cursor: Any, query: Any, parameters: Mapping[str, Any]) -> None:
            table = tried(cursor, query, parameters)
            while table:
                table = self._after_granting_the_fewest(cursor, table, lambda: tried(cursor, query, parameters))

        return until_it_may

    def _after_granting_the_fewest(self, cursor: Any, table: str, again: Callable[[], str | None]) -> str | None:
        """Grant the fewest rights with which the statement is not refused for this table. Return the next table that it is refused for."""
        mine = [
            one
            for one in self._missing
            if one.on.split(".")[-1] == table and self._warehouse.role(one.duty) == cursor.connection.info.user
        ]
        for few in chain.from_iterable(combinations(mine, size) for size in range(1, len(mine) + 1)):
            self._grant(few)
            if (next_table := again()) != table:
                self.needed += few
                self._missing = [one for one in self._missing if one not in few]
                return next_table
            self._revoke(few)
        raise AssertionError(f"{cursor.connection.info.user} needs a right on {table} that it is not granted")
