"""The shipped pipeline `impressions`, from Kafka through Airflow and Spark to Postgres: every record is accounted for exactly once."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pytest

from assets import events
from loaded_runs import NAME
from system import COUNTS
from tideline_demo import impressions

COLUMNS = "impression_id::text, offer_id, advertiser, category, user_id, placement, country, device, price, shown_at"


def expected(value: bytes, offers: dict) -> tuple:
    record = json.loads(value)
    advertiser, category = offers.get(record["offer_id"], (None, None))
    return (
        record["impression_id"], record["offer_id"], advertiser, category, record["user_id"], record["placement"],
        record["country"], record["device"], Decimal(record["price_micros"]) / 1_000_000, datetime.fromisoformat(record["shown_at"]),
    )  # fmt: skip


def test_output_equals_what_was_produced_by_partition_offset_and_content(system, loaded):
    offers = {row[0]: row[1:] for row in system.rows("SELECT offer_id, advertiser, category FROM ads.offers")}
    rows = system.rows(f"SELECT kafka_partition, kafka_offset, {COLUMNS} FROM ads.impressions")
    assert len(rows) == len(loaded.sent.written)
    assert {partition for partition, *_ in rows} == set(range(impressions.PARTITIONS))
    assert {row[:2]: row[2:] for row in rows} == {
        place: expected(loaded.raw[place], offers) for place in loaded.sent.written
    }


def test_rejects_are_the_malformed_records_byte_for_byte(system, loaded):
    rows = system.rows(
        "SELECT partition, kafka_offset, value FROM tideline.reject JOIN tideline.stream USING (stream_id) WHERE pipeline = %s",
        NAME,
    )
    assert len(rows) == 200
    assert {row[:2]: bytes(row[2]) for row in rows} == {place: loaded.raw[place] for place in loaded.sent.rejected}


def test_every_count_of_the_ledger_is_right(system, loaded):
    sent = loaded.sent
    read, written, rejected, filtered = (
        Counter(partition for partition, _ in places)
        for places in (loaded.raw, sent.written, sent.rejected, sent.filtered)
    )
    assert len(sent.filtered) > 0
    assert system.counts(NAME) == {
        n: (read[n], written[n], rejected[n], filtered[n], 0) for n in range(impressions.PARTITIONS)
    }
    assert system.heads(NAME) == [read[n] for n in range(impressions.PARTITIONS)], COUNTS


@dataclass(frozen=True, kw_only=True)
class Before:
    """The state before the run was cleared and ran again."""

    batches: list[int]
    versions: list
    events: list


@pytest.fixture(scope="module")
def before(system, loaded) -> Before:
    before = Before(batches=system.planned(NAME, loaded.run_id), versions=versions(system), events=events(system, NAME))
    system.airflow.clear(NAME, loaded.run_id)
    system.succeed(NAME, loaded.run_id)
    return before


def test_a_run_that_is_cleared_tells_nothing_twice(system, loaded, before):
    assert [event["extra"]["batch"] for event in before.events] == before.batches
    assert "asset events for batches none" in system.log(NAME, loaded.run_id, "announce")
    assert events(system, NAME) == before.events


def test_a_rerun_and_then_a_normal_run_change_not_one_row(system, loaded, before):
    """Not even by an equal row: the rows keep the transaction and the place in which they were written."""
    assert system.planned(NAME, loaded.run_id) == before.batches
    assert ": skipped" in system.log(NAME, loaded.run_id, "write")
    normal = system.run(NAME)
    assert system.states(NAME, normal) == {
        "plan": "skipped",
        "write": "skipped",
        "advance": "skipped",
        "announce": "skipped",
    }
    assert versions(system) == before.versions


def versions(system) -> list:
    tables = (
        "ads.impressions",
        "tideline.reject",
        "tideline.coverage",
        "tideline.batch_range",
        "tideline.batch",
        "tideline.stream",
    )
    return [system.rows(f"SELECT xmin::text, ctid::text, t::text FROM {table} t ORDER BY ctid") for table in tables]
