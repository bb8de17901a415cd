"""Helpers to abandon batches and to skip offsets, and to read the history of that."""

from ledger_queries import query
from planners import decide, declared
from range_requests import piece
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger
from tideline.local.broker import Broker
from topics import produce

WHY = "not needed any more"


def filled(broker: Broker, topic: str) -> Pipeline:
    """Declare a pipeline over ten records in partition 0 and four in partition 1; a batch has at most seven."""
    produce(broker, topic, 10)
    produce(broker, topic, 4, partition=1)
    return declared(broker.bootstrap, topic, batch_records=7)


def skip(url: str, pipeline: Pipeline, start: int, end: int, *, partition: int = 0, reason: str = WHY) -> list[int]:
    return decide(url, pipeline, flow.skip, piece(pipeline, start, end, partition), reason=reason)


def abandon(url: str, batch_id: int, *, reason: str = WHY) -> None:
    with Ledger(url, actor="ada") as ledger:
        flow.abandon(ledger, batch_id, reason=reason)


def story(ledger: Ledger, since: int = 0) -> list[tuple[str, str, str]]:
    """Return (actor, action, reason) of people's acts, in order."""
    return query(
        ledger,
        "SELECT actor, action, detail ->> 'reason' FROM tideline.event WHERE event_id > %s AND actor = 'ada'"
        " AND action <> 'move head' ORDER BY event_id",
        since,
    )


def everything(ledger: Ledger) -> dict[str, list[str]]:
    """Return the content of all tables of the ledger, except times."""
    names = [row[0] for row in query(ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline'")]
    return {name: sorted(map(str, query(ledger, f"SELECT t.* FROM tideline.{name} t"))) for name in names}


def fall_silent(ledger: Ledger) -> None:
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")
