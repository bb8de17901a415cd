"""Which SQL file a statement stands in: that is its name wherever the harness speaks of it."""

import re
from functools import cache
from importlib.resources import files

_FOLDERS = (
    ("tideline.ledger", "sql/queries"),
    ("tideline.ledger", "sql/migrations"),
    ("spark_jobs", "."),
    ("spark_jobs.sinks", "."),
)
_PLACEHOLDER = re.compile(r"\\\{\w+\\\}")


class UnknownStatementError(Exception):
    """A process sends what stands in no SQL file: then it has a step that nobody has named."""


@cache
def name_of(text: str, target: str) -> str:
    """The file that a statement was made of.

    Args:
        text: The statement as it is executed, before its parameters are bound.
        target: The text of the pipeline's target.sql.

    Raises:
        UnknownStatementError: It stands in no file.
    """
    plain = text.replace("%%", "%").strip()
    if plain == target.strip():
        return "target.sql"
    for name, pattern in _patterns():
        if pattern.fullmatch(plain):
            return name
    raise UnknownStatementError(plain)


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Each file with anything in place of its {placeholders}; those without any come first, being the more exact."""
    found = []
    for package, folder in _FOLDERS:
        for file in files(package).joinpath(folder).iterdir():
            if file.name.endswith(".sql"):
                text = file.read_text(encoding="utf-8").strip()
                found.append((len(_PLACEHOLDER.findall(re.escape(text))), file.name.removesuffix(".sql"), text))
    return [
        (name, re.compile(_PLACEHOLDER.sub(".+?", re.escape(text)) if holes else re.escape(text), re.DOTALL))
        for holes, name, text in sorted(found)
    ]


_patterns()  # once for all processes that are forked from here
