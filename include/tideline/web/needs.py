"""What needs a person, in a pipeline: one line each, with the next step. The worst comes first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

from tideline.ledger.queries import Row
from tideline.reports.overview import RETIRED
from tideline.web.broker_cache import Compared


class Level(IntEnum):
    """How much something needs a person."""

    FINE = 0
    LOOK = 1
    """It goes on, and a person should look at it."""
    ACT = 2
    """Records wait until a person decides, or will soon be gone."""


class Severity(IntEnum):
    """The order of what needs a person, from what can wait to what cannot be made good again."""

    WAITS_FOR_TOPIC = auto()
    """Nothing was ever loaded, and the topic does not exist yet."""
    UNDECLARED = auto()
    REJECTS = auto()
    WAITING_REPLAY = auto()
    BROKERS_AWAY = auto()
    FAILED = auto()
    BROKEN_DECLARATION = auto()
    TOPIC_MISSING = auto()
    HELD = auto()
    STOPPING = auto()
    STOPPED = auto()
    SOON_DELETED = auto()
    DELETED = auto()

    @property
    def level(self) -> Level:
        """Return the level. What a run does again by itself needs no decision."""
        if self == Severity.WAITS_FOR_TOPIC:
            return Level.FINE
        return Level.LOOK if self <= Severity.FAILED else Level.ACT


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person."""

    severity: Severity
    text: str
    anchor: str = ""
    """The part of the pipeline's page that shows more."""

    @property
    def level(self) -> Level:
        """Return how much it needs a person."""
        return self.severity.level


def worst_first(needs: Iterable[Need]) -> list[Need]:
    """Return needs in the order in which a person should read them."""
    return sorted(needs, key=lambda need: -need.severity)


def of_ledger(row: Row, recent: Row | None, broken: str | None) -> list[Need]:
    """Return what the ledger and the declaration say. A retired pipeline needs no action."""
    if row["state"] == RETIRED:
        return []
    found = []
    n_waiting, n_failed_waiting = (recent["n_waiting"], recent["n_failed_waiting"]) if recent else (0, 0)
    n_stopped, n_failed = row["n_stopped"], row["n_failed"] - n_failed_waiting
    if broken:
        found.append(Need(Severity.BROKEN_DECLARATION, f"its declaration has a mistake: {broken}"))
    if n_stopped:
        found.append(
            Need(Severity.STOPPED, f"{_counted(n_stopped, 'stopped partition')}: decide how to go on", "partitions")
        )
    if n_failed:
        found.append(Need(Severity.FAILED, f"{_counted(n_failed, 'failed batch')}: the next run tries again", "open"))
    if n_waiting:
        text = f"{_counted(n_waiting, 'replay')} without a run: retry or abandon"
        found.append(Need(Severity.WAITING_REPLAY, text, "open"))
    if recent and recent["n_rejected"] and recent["n_rejected"] * 10 >= recent["n_read"]:
        found.append(Need(Severity.REJECTS, "a tenth of the newest records or more was rejected", "rejects"))
    if not row["declared"] and not broken:
        found.append(Need(Severity.UNDECLARED, _given_up(row["pipeline"])))
    return found


def _given_up(pipeline: str) -> str:
    return f"no folder declares it: nothing is loaded. If it was given up: tideline retire {pipeline} --reason ..."


def of_brokers(found: Compared) -> list[Need]:
    """Return what the brokers' answer says."""
    if found.is_away and found.problem:
        return [Need(Severity.BROKERS_AWAY, f"its brokers cannot be asked: {found.problem.problem}", "partitions")]
    if found.problem:
        return []  # one of the declaration, which is listed already
    active = [row for row in found.rows if row["state"] != "retired"]
    return [
        *(
            Need(Severity.TOPIC_MISSING, error.problem, "partitions")
            if found.has_begun
            else Need(Severity.WAITS_FOR_TOPIC, f"waits for its topic: {error.problem}", "partitions")
            for error in found.missing
        ),
        *_lines(active, Severity.DELETED, "records that were not read are deleted", _is_deleted),
        *_lines(
            active,
            Severity.STOPPING,
            "the next run stops this partition",
            lambda row: bool(row["will_stop"]) and not _is_deleted(row),
        ),
        *_lines(
            active,
            Severity.HELD,
            "a transaction hangs at the end, and nothing behind it can be read",
            lambda row: bool(row["held"]),
        ),
        *_lines(
            active,
            Severity.SOON_DELETED,
            "less than a quarter of the retention time is left",
            lambda row: row["headroom_at_least"] == 0 and not _is_deleted(row),
        ),
    ]


def _is_deleted(row: Row) -> bool:
    """Return whether records were deleted before they were read. The next run stops such a partition, if none has."""
    return bool(row["headroom"] == "gone")


def _lines(rows: Sequence[Row], severity: Severity, text: str, fits: Callable[[Row], bool]) -> list[Need]:
    n_found = sum(map(fits, rows))
    return [Need(severity, f"{_counted(n_found, 'partition')}: {text}", "partitions")] if n_found else []


def _counted(number: int, what: str) -> str:
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else plural}"
