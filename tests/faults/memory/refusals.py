"""Errors as Postgres raises them: psycopg2's classes with SQLSTATE and diagnostics, which psycopg2 fills only from a server."""

from dataclasses import dataclass
from functools import cache

import psycopg2
from psycopg2 import errorcodes, errors


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The fields of psycopg2's `diag` that the flow reads."""

    message_primary: str
    message_detail: str | None
    constraint_name: str | None


def refusal(
    condition: str, message: str, *, detail: str | None = None, constraint: str | None = None
) -> psycopg2.Error:
    """Return the error of a condition, such as `check_violation`, as if a server had raised it."""
    error = _class(condition)(f"{message}\nDETAIL:  {detail}\n" if detail else f"{message}\n")
    error.diag = Diagnostics(message, detail, constraint)  # type: ignore[assignment]  # only a server makes psycopg2's
    return error


@cache
def _class(condition: str) -> type[psycopg2.Error]:
    code = getattr(errorcodes, condition.upper())
    # Attributes of the class hide those of psycopg2, which cannot be set.
    return type(errors.lookup(code).__name__, (errors.lookup(code),), {"pgcode": code, "diag": None})


def law(message: str) -> psycopg2.Error:
    """Return the error of a trigger for a change that is never permitted: of the history, of states, of what was planned."""
    return refusal("restrict_violation", message)


def unmet(message: str) -> psycopg2.Error:
    """Return the error of a trigger for a change that is not permitted in the current state."""
    return refusal("check_violation", message)


def check(table: str, constraint: str, row: str) -> psycopg2.Error:
    """Return the error of a CHECK; `row` as Postgres shows it."""
    message = f'new row for relation "{table}" violates check constraint "{constraint}"'
    return refusal("check_violation", message, detail=f"Failing row contains ({row}).", constraint=constraint)


def not_offsets() -> psycopg2.Error:
    """Return the error for a range that is empty or begins below zero."""
    message = 'value for domain tideline.offsets violates check constraint "offsets_check"'
    return refusal("check_violation", message, constraint="offsets_check")


def overlap(constraint: str) -> psycopg2.Error:
    """Return the error of an exclusion constraint."""
    message = f'conflicting key value violates exclusion constraint "{constraint}"'
    return refusal("exclusion_violation", message, constraint=constraint)


def duplicate(constraint: str, detail: str | None = None) -> psycopg2.Error:
    """Return the error of a primary or unique key."""
    message = f'duplicate key value violates unique constraint "{constraint}"'
    return refusal("unique_violation", message, detail=detail, constraint=constraint)


def dangling(table: str, constraint: str) -> psycopg2.Error:
    """Return the error of a foreign key."""
    message = f'insert or update on table "{table}" violates foreign key constraint "{constraint}"'
    return refusal("foreign_key_violation", message, constraint=constraint)
