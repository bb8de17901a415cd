"""Tables and events of the ad company, as the DAG `ads_baseline` and the pipeline `offer_anomalies` find them."""

import importlib.util
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from given_ledger.ledgers import query
from tideline.ledger.connection import Ledger
from tideline.settings import PROJECT

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
CONVERSIONS = PROJECT / "include" / "pipelines" / "conversions"
ANOMALIES = PROJECT / "include" / "pipelines" / "offer_anomalies"
IMPRESSIONS = PROJECT / "include" / "pipelines" / "impressions"
TOPIC = "offer_events"
Event = tuple[int, str, datetime]
"""Offer, kind and time."""


def baseline() -> ModuleType:
    """Return the module of the DAG."""
    path = PROJECT / "dags" / "ads_baseline.py"
    spec = importlib.util.spec_from_file_location("ads_baseline", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def create_inputs(ledger: Ledger) -> None:
    """Create the tables that the baseline counts, as the pipelines that load them do."""
    for folder in (IMPRESSIONS, CONVERSIONS):
        query(ledger, (folder / "target.sql").read_text(encoding="utf-8"))


def count(ledger: Ledger, offer_id: int, impressions: int, conversions: int, *, end: datetime = NOON) -> None:
    """Insert impressions and conversions of an offer, one each minute, the last one a minute before `end`."""
    query(
        ledger,
        "INSERT INTO ads.impressions (impression_id, offer_id, price, shown_at, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch) "
        "SELECT gen_random_uuid(), %s, 0, %s - n * interval '1 minute', gen_random_uuid(), 0, n, 1 FROM generate_series(1, %s) AS n",
        offer_id,
        end,
        impressions,
    )
    query(
        ledger,
        "INSERT INTO ads.conversions (offer_id, converted_at, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch) "
        "SELECT %s, %s - n * interval '1 minute', gen_random_uuid(), 0, n, 1 FROM generate_series(1, %s) AS n",
        offer_id,
        end,
        conversions,
    )


def window(offer_id: int, impressions: int, conversions: int, *, begin: datetime, minutes: int = 55) -> list[Event]:
    """Return events of one offer, evenly over most of an hour, or over fewer minutes."""
    kinds = ["conversion"] * conversions + ["impression"] * impressions
    step = timedelta(minutes=minutes) / max(1, len(kinds))
    return [(offer_id, kind, begin + n * step) for n, kind in enumerate(kinds)]


def values(events: Iterable[Event]) -> list[str]:
    """Return the values of records."""
    return [json.dumps(_value(*event)) for event in events]


def _value(offer_id: int, kind: str, at: datetime) -> dict[str, Any]:
    return {"kind": kind, "offer_id": offer_id, "user_id": "ada", "revenue": "1.50", "happened_at": at.isoformat()}
