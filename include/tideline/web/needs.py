"""What needs a person, in a pipeline: one line each, with the next step. The worst comes first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tideline.errors import RetryableError
from tideline.ledger.queries import Row
from tideline.web.answers import Compared


class Level(IntEnum):
    """How much something needs a person."""

    FINE = 0
    LOOK = 1
    """It goes on, and a person should look at it."""
    ACT = 2
    """Records wait until a person decides, or will soon be gone."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person."""

    level: Level
    text: str
    anchor: str = ""
    """The part of the pipeline's page that shows more."""


def of_ledger(row: Row, recent: Row | None, broken: str | None) -> list[Need]:
    """Return what the ledger and the declaration say."""
    found = []
    if broken:
        found.append(Need(Level.ACT, f"its declaration has a mistake: {broken}"))
    if row["n_stopped"]:
        found.append(
            Need(Level.ACT, f"{_counted(row['n_stopped'], 'stopped partition')}: decide how to go on", "partitions")
        )
    if row["n_failed"]:
        found.append(Need(Level.ACT, f"{_counted(row['n_failed'], 'failed batch')}: the next run tries again", "open"))
    if recent and recent["n_waiting"]:
        found.append(
            Need(Level.LOOK, f"{_counted(recent['n_waiting'], 'replay')} without a run: retry or abandon", "open")
        )
    if recent and recent["n_rejected"] and recent["n_rejected"] * 10 >= recent["n_read"]:
        found.append(Need(Level.LOOK, "a tenth of the newest records or more was rejected", "rejects"))
    if not row["declared"] and not broken:
        found.append(Need(Level.LOOK, "no folder declares it: nothing is loaded"))
    return found


def of_brokers(found: Compared) -> list[Need]:
    """Return what the brokers' answer says."""
    if found.problem:
        # Another problem is one of the declaration, and is listed already.
        away = isinstance(found.problem, RetryableError)
        return [Need(Level.LOOK, f"its brokers cannot be asked: {found.problem.problem}", "partitions")] if away else []
    active = [row for row in found.rows if row["state"] != "retired"]
    needs = [Need(Level.ACT, error.problem, "partitions") for error in found.missing]
    needs += _lines(
        active, "records that were not read are deleted", lambda row: row["headroom"] == "gone" and not row["why"]
    )
    needs += _lines(active, "the next run stops this partition", lambda row: bool(row["will_stop"]))
    needs += _lines(
        active,
        "less than a quarter of the retention time is left",
        lambda row: row["headroom_at_least"] == 0 and row["headroom"] != "gone",
    )
    return needs


def _lines(rows: Sequence[Row], text: str, fits: Callable[[Row], bool]) -> list[Need]:
    n_found = sum(map(fits, rows))
    return [Need(Level.ACT, f"{_counted(n_found, 'partition')}: {text}", "partitions")] if n_found else []


def _counted(number: int, what: str) -> str:
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else plural}"
