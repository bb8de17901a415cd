"""Find out which rights on tables roles need: without any of them, do everything once, and grant each one when a statement is refused."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, combinations
from typing import Any

import psycopg2
import pytest

from granted_rights import Granted, Warehouse
from tideline.ledger import connection
from tideline.ledger.database_errors import translated

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
