"""A transaction that hangs freezes nothing in silence: what lies behind it is lag, uses up its retention, and is named."""

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from given_ledger.planners import NAME, declared, load, next_offsets, run
from given_topics import topics
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords
from tideline.inspection import headroom
from tideline.inspection.brokers import ask
from tideline.inspection.comparison import against
from tideline.kafka.broker import Broker
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.metrics import brokers
from tideline.metrics.sheet import Sheet
from tideline.reports.checks import sources
from tideline.web.broker_cache import Compared
from tideline.web.needs import Level, of_brokers

HOUR_MS = 3_600_000
BEHIND = 20


def ago(hours: float) -> int:
    return round(time.time() * 1000 - hours * HOUR_MS)


@dataclass
class Scene:
    """A topic that keeps records for four hours: ten records, an open transaction of three, and twenty committed records behind it."""

    ledger: Ledger
    broker: object
    pipeline: Pipeline
    topic: str
    open: list = field(default_factory=list)

    def begin(self, *timestamps):
        """Open the transaction with records of these timestamps, and commit others behind it."""
        topics.produce(self.broker, self.topic, 10, timestamp=ago(3.6))
        for timestamp in timestamps:
            self.open.append(topics.transaction(self.broker, self.topic, [0], 3, timestamp=timestamp))
        topics.produce(self.broker, self.topic, BEHIND)

    def hour(self, name):
        until = datetime.now(UTC) + timedelta(hours=1)
        plan = flow.plan(self.ledger, Broker(self.pipeline.source), self.pipeline, run(name), NewRecords(until=until))
        load(self.ledger, plan.batch_ids)
        return plan

    def abort(self):
        while self.open:
            self.open.pop().abort_transaction(60)

    def looked_at(self):
        known = queries.streams(self.ledger, NAME)
        answer = ask(self.pipeline, {self.topic})
        assert answer.problem is None
        return known, answer, against(known, answer)

    def numbers(self):
        sheet = Sheet()
        assert brokers.fill(sheet, [self.pipeline], {NAME: queries.streams(self.ledger, NAME)}) == []
        names = ("lag_records", "lag_seconds", "held_records", "headroom_ratio")
        return {name: sheet.gauges[name].get((NAME, self.topic, "0")) for name in names}


@pytest.fixture
def scene(ledger, broker, admin):
    settings = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": str(4 * HOUR_MS)}
    topic = topics.created(admin, f"held_{uuid4().hex[:8]}", **settings)
    scene = Scene(ledger, broker, declared(broker.bootstrap, topic, source={"gaps": "allowed"}), topic)
    yield scene
    scene.abort()


def test_hourly_plans_behind_a_hanging_transaction_say_so_each_time_until_it_ends(scene, caplog):
    scene.begin(ago(3.6))
    for hour in range(3):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            plan = scene.hour(f"hour {hour}")
        assert next_offsets(scene.ledger) == {0: 10}
        assert len(plan.batch_ids) == (hour == 0)
        [note] = plan.notes
        assert f"{scene.topic}/0: a transaction has been open for more than 15 minutes at offset 10" in note
        assert f"the {3 + BEHIND} offsets behind it cannot be read" in note
        assert note in caplog.text
        unread = 10 if hour else 0  # when it was planned, the first records were not loaded yet
        assert f"{scene.topic}/0: the oldest unread record, offset {unread}, has used more than half" in caplog.text
    _, notes = flow.dry_run(scene.ledger, Broker(scene.pipeline.source), scene.pipeline, NewRecords())
    assert notes == [note]
    scene.abort()
    topics.until(lambda: topics.ends(Broker(scene.pipeline.source)) == [14 + BEHIND])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert scene.hour("after").notes == []
    assert next_offsets(scene.ledger) == {0: 14 + BEHIND}
    assert "transaction" not in caplog.text


def test_what_a_hanging_transaction_holds_back_is_lag_and_uses_up_its_retention(scene):
    scene.begin(ago(3.6))
    scene.hour("first")
    known, answer, [row] = scene.looked_at()
    assert (row["head"], row["end"], row["lag"], row["held"]) == (10, 10, 3 + BEHIND, 3 + BEHIND)
    assert (row["headroom_at_least"], row["headroom"]) == (0, "< 25% of 4 h")
    assert list(headroom.behind(answer, known).values()) == [HOUR_MS // 1000]
    [need, *_] = of_brokers(Compared(rows=[row], problem=None, missing=()))
    assert (need.level, "transaction hangs" in need.text) == (Level.ACT, True)
    checks = {check.check: check for check in sources.streams(scene.pipeline, answer, [row])}
    assert f"{scene.topic}/0 from offset 10 on" in checks["transactions"].found
    assert "runbook.md#transaction-hangs" in checks["transactions"].next_step
    found = scene.numbers()
    assert (found["lag_records"], found["held_records"], found["headroom_ratio"]) == (23, 23, 0)
    assert 3.5 * 3600 <= found["lag_seconds"] <= 4.5 * 3600


def test_a_transaction_of_the_last_minutes_is_no_warning_and_no_lag(scene, caplog):
    scene.begin(ago(0.1))
    with caplog.at_level(logging.WARNING):
        assert scene.hour("first").notes == []
    assert "transaction" not in caplog.text
    _, answer, [row] = scene.looked_at()
    assert (row["lag"], row["held"], row["headroom"], row["why"]) == (0, 0, None, None)
    assert scene.numbers() == {"lag_records": 0, "lag_seconds": 0, "held_records": 0, "headroom_ratio": None}
    assert not [check for check in sources.streams(scene.pipeline, answer, [row]) if check.check == "transactions"]


def test_a_hanging_transaction_that_begins_in_2099_is_judged_by_what_lies_behind_it(scene):
    scene.begin(round(datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000), ago(3.6))
    assert len(scene.hour("first").notes) == 1
    _, _, [row] = scene.looked_at()
    assert (row["lag"], row["held"]) == (6 + BEHIND, 6 + BEHIND)
