"""Which columns the stored states of a pipeline have. A state is stored as JSON, and is written anew only when its key comes again.

So a column that is added is null in older states, one that is renamed is read by its former name there, and one that is
gone stays known: its name comes back with its type, or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import FatalError
from tideline.ledger.connection import Ledger, json


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumns:
    """The key and the columns of a pipeline's states."""

    key: tuple[str, ...]
    types: Mapping[str, str]
    """By name, the type as it is declared. Also of columns that are no longer declared."""
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By name, the names under which older states have the column, newest first."""

    def read(self, stored: Mapping[str, Any], declared: Sequence[str]) -> dict[str, Any]:
        """Return the declared columns of a stored state. A column that it does not have is None."""
        return {
            name: next((stored[one] for one in (name, *self.former.get(name, ())) if one in stored), None)
            for name in declared
        }


def find(ledger: Ledger, pipeline: str) -> tuple[StateColumns, bool] | None:
    """Return the columns of the stored states; None before the first batch. Within a transaction.

    And whether there are states, or undo from which a rewind could bring some back.
    """
    row = ledger.row("find_state_columns", pipeline=pipeline)
    if row is None:
        return None
    columns = row["columns"]
    return StateColumns(
        key=tuple(row["key_columns"]),
        types={name: one["type"] for name, one in columns.items()},
        former={name: tuple(one["former"]) for name, one in columns.items() if one["former"]},
    ), row["has_states"]


def keep(ledger: Ledger, pipeline: str, columns: StateColumns) -> None:
    """Store which columns the states have from now on, within the publishing transaction. Writes nothing if they are the same."""
    if (found := find(ledger, pipeline)) is not None and found[0] == columns:
        return
    stored = {name: {"type": one, "former": list(columns.former.get(name, ()))} for name, one in columns.types.items()}
    ledger.run("keep_state_columns", pipeline=pipeline, key_columns=list(columns.key), columns=json(stored))


def evolved(
    ledger: Ledger, pipeline: str, *, key: Sequence[str], columns: Mapping[str, str], renamed: Mapping[str, str]
) -> StateColumns:
    """Return the columns of a pipeline's states under its present declaration. Called before anything is read.

    Args:
        ledger: The session.
        pipeline: The name of the pipeline.
        key: The declared key columns.
        columns: By name, the declared types.
        renamed: By new name, the former one.

    Raises:
        FatalError: States that are stored, or that a rewind could bring back, do not fit: another key, another type of a column, or a renamed
            column that never was.
    """
    with ledger.transaction():
        found = find(ledger, pipeline)
    if found is None or not found[1]:
        return StateColumns(key=tuple(key), types=dict(columns))
    stored = found[0]
    problems = _problems(stored, key, columns, renamed)
    if problems:
        raise FatalError(
            f"{pipeline}: the stored states do not fit the declaration: " + "; ".join(problems),
            next_step="declare what the stored states have, and those that a rewind would bring back; or let the processor fill a column of "
            "another name; "
            f"or go back to the beginning and fold everything anew: tideline rewind {pipeline} --to-batch 0 --reason ...",
            entry="state-does-not-fit",
        )
    former = {name: names for name, names in stored.former.items() if name in columns}
    for new, old in renamed.items():
        former[new] = tuple(dict.fromkeys([old, *stored.former.get(old, ()), *stored.former.get(new, ())]))
    return StateColumns(key=stored.key, types={**stored.types, **columns}, former=former)


def _problems(
    stored: StateColumns, key: Sequence[str], columns: Mapping[str, str], renamed: Mapping[str, str]
) -> list[str]:
    problems = []
    if tuple(key) != stored.key:
        problems.append(f"expected the key {', '.join(stored.key)}, found {', '.join(key)}")
    for name, declared in columns.items():
        was = renamed.get(name, name)
        if name in renamed and was not in stored.types:
            problems.append(f"{name} was never called {was}")
        elif was in stored.types and stored.types[was] != declared:
            problems.append(f"expected {name} to be {stored.types[was]}, found {declared}")
    return problems
