"""Find the SQL file of a statement. The harness uses the file's name as the name of the statement."""

import re
from functools import cache
from importlib.resources import files

_FOLDERS = (
    ("tideline.ledger", "sql/queries"),
    ("tideline.ledger", "sql/migrations"),
    ("tideline.spark_jobs", "."),
    ("tideline.spark_jobs.readers", "."),
    ("tideline.records", "."),
    ("tideline.sinks", "."),
    ("tideline.sinks.delta", "."),
    ("tideline.sinks.postgres", "."),
)
_PLACEHOLDER = re.compile(r"\\\{\w+\\\}")


class UnknownStatementError(Exception):
    """A process sends a statement that is in no SQL file. It would be a step without a name."""


@cache
def name_of(text: str, target: str) -> str:
    """Return the name of the file that a statement was made from.

    Args:
        text: The statement as it is executed, before its parameters are bound.
        target: The text of the pipeline's target.sql.

    Raises:
        UnknownStatementError: It is in no file.
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
    """Return a pattern for each file, in which each {placeholder} matches any text, also none. Files without placeholders are
    first, as they are more exact."""
    found = []
    for package, folder in _FOLDERS:
        for file in files(package).joinpath(folder).iterdir():
            if file.name.endswith(".sql"):
                text = _plain(file.read_text(encoding="utf-8"))
                found.append((len(_PLACEHOLDER.findall(re.escape(text))), file.name.removesuffix(".sql"), text))
    return [
        (name, re.compile(_PLACEHOLDER.sub(".*?", re.escape(text)) if holes else re.escape(text), re.DOTALL))
        for holes, name, text in sorted(found)
    ]


_patterns()  # compiled once, for all processes forked from this one
