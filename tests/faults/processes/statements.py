"""Find the name of a statement that a process executes."""

import re
from functools import cache

from tideline.ledger.versions import migrations
from tideline.statements import statements

_PACKAGES = ("ledger", "records", "sinks", "sinks.delta", "sinks.postgres", "spark_jobs", "spark_jobs.readers")
_PLACEHOLDER = re.compile(r"\\\{\w+\\\}")


class UnknownStatementError(Exception):
    """A process sends a statement that has no name. It would be a step without a name."""


@cache
def name_of(text: str, target: str) -> str:
    """Return the name of a statement.

    Args:
        text: The statement as it is executed, before its parameters are bound.
        target: The text of the pipeline's target.sql.

    Raises:
        UnknownStatementError: It is in no SQL file.
    """
    plain = _plain(text)
    if plain == _plain(target):
        return "target.sql"
    for name, pattern in _patterns():
        if pattern.fullmatch(plain):
            return name
    raise UnknownStatementError(plain)


def _plain(text: str) -> str:
    return text.replace("%%", "%").strip()


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for each statement, in which each {placeholder} matches any text, also none. Statements without placeholders
    are first, as they are more exact."""
    named = [pair for package in _PACKAGES for pair in statements(f"tideline.{package}").items()]
    named += [(name.removesuffix(".sql"), text) for name, text in migrations().values()]
    found = [(len(_PLACEHOLDER.findall(re.escape(_plain(text)))), name, _plain(text)) for name, text in named]
    return [
        (name, re.compile(_PLACEHOLDER.sub(".*?", re.escape(text)) if holes else re.escape(text), re.DOTALL))
        for holes, name, text in sorted(found)
    ]


_patterns()  # compiled once, for all processes forked from this one
