"""Maps statements to Python functions: a verb of the ledger by its name, a statement of the Spark job by its text.

A function receives the database and the statement's parameters. It returns rows as dictionaries, or the number of rows that it touched if the
statement returns none.
"""

from collections.abc import Callable, Mapping
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from psycopg2.sql import SQL, Composable, Composed

from tideline.statements import statement

Rows = list[dict[str, Any]]
Function = Callable[..., Rows | int]


class Statement(NamedTuple):
    """A statement that a session executes."""

    name: str
    function: Function
    query: Composable | None
    """The query for Postgres; None for a COPY."""
    filled: Mapping[str, Any] = MappingProxyType({})
    """The parts that were filled in, by name."""


NO_STEPS = frozenset({"forbid_nested_loops", "allow_nested_loops", "set_session"})
"""Settings of an open transaction or a new session. A crash before one of them has the same effect as a crash before the next statement."""

VERBS: dict[str, Statement] = {}
"""By the name of the statement in tideline.ledger."""

_COMPOSED: dict[tuple[str, ...], tuple[str, Function, tuple[str, ...]]] = {}
"""By its literal parts: name, function, and names of the parts that are filled in."""


def verb(function: Function) -> Function:
    """Register a function for the verb of its name."""
    name = function.__name__
    VERBS[name] = Statement(name, function, SQL(statement("tideline.ledger", name)))
    return function


def composed(package: str, name: str) -> Callable[[Function], Function]:
    """Register a function for a statement whose names are filled in at run time. The function receives these as keyword arguments."""

    def register(function: Function) -> Function:
        parts = list(Formatter().parse(statement(package, name)))
        literals = tuple(literal for literal, *_ in parts if literal)
        fields = tuple(field for _, field, *_ in parts if field)
        _COMPOSED[literals] = (function.__name__, function, fields)
        return function

    return register


def recognised(query: Composable) -> Statement:
    """Return the statement from which a query was composed."""
    parts = query.seq if isinstance(query, Composed) else [query]
    literals = tuple(part.string for part in parts if isinstance(part, SQL))
    if literals not in _COMPOSED:
        raise NotImplementedError(f"not in the ledger in memory: {query}")
    name, function, fields = _COMPOSED[literals]
    filled = (part for part in parts if not isinstance(part, SQL))
    return Statement(name, function, query, dict(zip(fields, filled, strict=True)))
