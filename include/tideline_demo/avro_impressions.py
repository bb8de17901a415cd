"""Generated ad impressions in Avro, in the frame of the stack's schema registry, for the tour."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import Schema
from tideline.formats import kinds
from tideline.formats.confluent_frame import framed
from tideline.registry.client import RegistryClient
from tideline_demo import impressions
from tideline_demo.impressions import Impression, SentImpressions

TOPIC = "ad_impressions_avro"
SCHEMA = Schema(kind="AVRO", text=Path(__file__).with_name("impression.avsc").read_text(encoding="utf-8"))
_UNKNOWN = 2**31 - 1
"""An id that no registry gives."""
_MOMENT = pa.timestamp("ms", "UTC")


def produce(bootstrap: str, registry: str, count: int, *, seed: int, since: datetime) -> SentImpressions:
    """Register the schema, and send impressions to the topic; return what the broker has acknowledged.

    Args:
        bootstrap: Addresses of brokers.
        registry: The address of the registry.
        count: Number of records.
        seed: Decides what is in them.
        since: Time of the first record.

    Raises:
        RetryableError: The broker did not acknowledge all of them, or the registry does not answer.
    """
    access = RegistryAccess(pipeline="the tour", name="stack", urls=(registry,), timeout_seconds=30)
    with RegistryClient(access) as client:
        schema_id = client.register(f"{TOPIC}-value", SCHEMA)
    [cut_off] = encoder(schema_id)([impressions.example()])
    broken = (cut_off[:-3], cut_off + b"\0", b'{"impression_id": "in JSON"}', framed(_UNKNOWN) + cut_off[5:], b"")
    return impressions.produce(
        bootstrap, count, seed=seed, since=since, topic=TOPIC, encode=encoder(schema_id), broken=broken
    )


def encoder(schema_id: int) -> Callable[[Sequence[Impression]], list[bytes]]:
    """Return what writes impressions with the registered schema."""
    writer = kinds.encoder(SCHEMA.kind.lower(), SCHEMA, None, framed(schema_id))

    def encode(rows: Sequence[Impression]) -> list[bytes]:
        given = [{**row, "shown_at": datetime.fromisoformat(str(row["shown_at"]))} for row in rows]
        columns = {name: pa.array([row[name] for row in given]) for name in writer.fields}
        columns["shown_at"] = columns["shown_at"].cast(_MOMENT)
        return [*writer.encoded(columns, len(given)).to_pylist()]

    return encode
