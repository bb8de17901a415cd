"""What each role may do, as the file `rights.toml` says: the one source of grants, of `tideline doctor` and of docs/permissions.md."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tideline.ledger.connection import Ledger

GRANTED = ("operator", "writer", "stager", "reader")
"""The duties of the roles that processes use."""
DUTIES = ("owner", *GRANTED)


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege on one object."""

    privilege: str
    kind: str
    """TABLE, which a view is as well, FUNCTION, SCHEMA or DATABASE."""
    name: str
    """What the object is called. The database has no name here."""

    def __str__(self) -> str:
        if self.kind == "TABLE":
            return f"{self.privilege} on {self.name}"
        return f"{self.privilege} on {self.kind.lower()} {self.name}".strip()


def tables() -> dict[str, dict[str, str]]:
    """Return, by table of the ledger and by duty, the privileges as a text such as `SELECT INSERT`."""
    found: dict[str, dict[str, str]] = _file()["tables"]
    return found


def views() -> list[str]:
    """Return the names of the views of the ledger."""
    return list(_file()["views"])


def rights(duty: str) -> list[Right]:
    """Return every single right that a role needs, those on the database last."""
    file = _file()
    found = [
        Right(one, kind, f"{prefix}{name}")
        for section, kind, prefix in (
            ("schemas", "SCHEMA", ""),
            ("tables", "TABLE", "tideline."),
            ("views", "TABLE", "tideline."),
            ("functions", "FUNCTION", "tideline."),
        )
        for name, of_duty in file[section].items()
        for one in of_duty.get(duty, "").split()
    ]
    return found + of_database(duty)


def of_database(duty: str) -> list[Right]:
    """Return the rights on the database that a role needs."""
    return [Right(one, "DATABASE", "") for one in _file()["database"]["database"].get(duty, "").split()]


def lacking(ledger: Ledger, wanted: Iterable[Right], *, user: str | None = None) -> list[Right]:
    """Return those of some rights that a user of the database lacks. The default is the user of the session."""
    asked = list(wanted)
    rows = ledger.rows(
        "view_privileges",
        user=user,
        kinds=[one.kind for one in asked],
        names=[one.name for one in asked],
        privileges=[one.privilege for one in asked],
    )
    return [asked[row["number"] - 1] for row in rows]


@cache
def _file() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(files("tideline.ledger").joinpath("rights.toml").read_text(encoding="utf-8"))
