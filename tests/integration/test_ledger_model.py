"""Compares the ledger with a model of it: after any sequence of operations both have the same state and history."""

from dataclasses import dataclass, field
from itertools import count, pairwise
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from faults.memory import Cluster, MemoryBroker
from given_ledger.ledgers import query, stage
from given_ledger.planners import declared
from tideline import flow
from tideline.domain.requests import NewRecords
from tideline.domain.states import BatchState
from tideline.errors import RetryableError, SupersededError
from tideline.ledger import attempts, heads, publishing
from tideline.ledger.attempts import Attempt, Held, Writer
from tideline.ledger.reservations import Run

PARTITIONS, BATCH_RECORDS, RUN_BATCHES = 3, 12, 3
NEVER_STALE, ALWAYS_STALE = 3600.0, -1.0
NUMBERS = count()

any_partition = st.integers(0, PARTITIONS - 1)
any_run = st.sampled_from(["a", "b", "c", "d", "e", "f"])
any_patience = st.sampled_from([NEVER_STALE, ALWAYS_STALE])
any_number = st.integers(0, 99)
"""A choice among the existing things, by remainder."""


@dataclass
class Batch:
    """The state of one batch in the model of the ledger."""

    ranges: dict[int, tuple[int, int]]
    """(start, end) by partition."""
    state: BatchState = BatchState.PLANNED
    fence: int = 0
    writer: Writer | None = None
    history: list[tuple[str | None, str | None]] = field(default_factory=lambda: [(None, "planned")])
    """From and to of each change; (None, None) for a refusal."""

    def become(self, state: BatchState) -> None:
        self.history.append((self.state, state))
        self.state = state

    @property
    def is_open(self) -> bool:
        return self.state in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


class LedgerMachine(RuleBasedStateMachine):
    """One pipeline; every rule does the same thing to ledger and model and compares the answers."""

    def __init__(self, ledger) -> None:
        super().__init__()
        self.ledger = ledger
        cluster = Cluster()
        self.topic = cluster.create("ads", *[0] * PARTITIONS)
        limits = {"batch_records": BATCH_RECORDS, "run_batches": RUN_BATCHES}
        name = f"model_{next(NUMBERS)}"
        self.pipeline = declared("nowhere:9092", "ads", name=name, table=f"ads.{name}", **limits)
        self.broker = MemoryBroker(cluster, self.pipeline.source)
        self.batches: dict[int, Batch] = {}
        self.runs: dict[str, list[int]] = {}
        self.attempts: list[Attempt] = []
        self.staged: set[UUID] = set()
        self.heads = [0] * PARTITIONS
        self.output: set[tuple[int, int]] = set()

    # Rules ---------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self):
        for log, number in zip(self.topic.logs, [30, 10, 1], strict=True):
            log.append(number)
        self.plan("a")

    @rule(partition=any_partition, number=st.integers(1, 20))
    def records_arrive(self, partition, number):
        self.topic.logs[partition].append(number)

    @rule()
    def plan_for_a_new_run(self):
        self.topic.logs[-1].append()
        self.plan(f"run {len(self.runs)}")

    @rule(name=any_run)
    def plan(self, name):
        run = Run(dag_id="model", run_id=name)
        given = flow.plan(self.ledger, self.broker, self.pipeline, run, NewRecords()).batch_ids
        self.model_advance()
        if name in self.runs:
            assert given == self.runs[name]
            return
        left_behind = [batch_id for batch_id, batch in self.batches.items() if batch.is_open]
        assert given[: len(left_behind)] == left_behind
        self.model_plan(given[len(left_behind) :])
        if given:
            self.runs[name] = given

    def model_plan(self, new):
        """New batches continue each stream where the others end, keep the limits, and leave out nothing that would fit."""
        assert len(new) <= RUN_BATCHES
        for batch_id in new:
            with self.ledger.transaction():
                ranges = {p.partition: p.offsets for p in attempts.ranges(self.ledger, batch_id)}
            assert 0 < sum(map(len, ranges.values())) <= BATCH_RECORDS
            for partition, offsets in ranges.items():
                assert offsets.start == self.planned_end(partition)
                assert offsets.end <= self.topic.ends[partition]
            self.batches[batch_id] = Batch(ranges={n: (r.start, r.end) for n, r in ranges.items()})
        if len(new) < RUN_BATCHES:
            assert [self.planned_end(n) for n in range(PARTITIONS)] == self.topic.ends

    def planned_end(self, partition):
        return max((b.ranges[partition][1] for b in self.batches.values() if partition in b.ranges), default=0)

    @rule(number=any_number)
    def write(self, number):
        """Go from claim to publish without a step in between."""
        if left := [batch_id for batch_id, batch in self.batches.items() if batch.is_open]:
            self.claim(left[number % len(left)], "a", ALWAYS_STALE)
            self.stage(-1)
            self.publish(-1)

    @precondition(lambda self: self.batches)
    @rule(number=any_number, name=any_run, patience=any_patience)
    def claim_what_is_open(self, number, name, patience):
        if left := [batch_id for batch_id, batch in self.batches.items() if batch.is_open]:
            self.claim(left[number % len(left)], name, patience)

    @precondition(lambda self: self.batches)
    @rule(number=any_number, name=any_run)
    def claim_anything(self, number, name):
        self.claim(list(self.batches)[number % len(self.batches)], name, NEVER_STALE)

    def claim(self, batch_id, name, patience):
        batch = self.batches[batch_id]
        writer = Writer(dag_id="model", run_id=name, task_id="write", try_number=1)
        claimed = attempts.claim(self.ledger, batch_id, writer, stale_after_seconds=patience)
        if not batch.is_open:
            assert claimed is batch.state
        elif batch.state is BatchState.WRITING and batch.writer != writer and patience is NEVER_STALE:
            assert isinstance(claimed, Held)
        else:
            batch.become(BatchState.WRITING)
            batch.fence, batch.writer = batch.fence + 1, writer
            assert claimed.fence == batch.fence
            assert {p.partition: (p.offsets.start, p.offsets.end) for p in claimed.ranges} == batch.ranges
            self.attempts.append(claimed)

    @precondition(lambda self: self.attempts)
    @rule(number=any_number)
    def stage(self, number):
        attempt = self.attempts[number % len(self.attempts)]
        if attempt.attempt not in self.staged and self.batches[attempt.batch_id].is_open:
            stage(self.ledger, attempt)
            self.staged.add(attempt.attempt)

    @precondition(lambda self: self.attempts)
    @rule(number=any_number)
    def publish(self, number):
        attempt = self.attempts[number % len(self.attempts)]
        batch = self.batches[attempt.batch_id]
        if not self.is_holder(attempt):
            with pytest.raises(SupersededError):
                self.publish_in_ledger(attempt)
            batch.history.append((None, None))
        elif attempt.attempt not in self.staged:
            with pytest.raises(RetryableError, match="not what was read"):
                self.publish_in_ledger(attempt)
        else:
            counts = self.publish_in_ledger(attempt)
            batch.become(BatchState.PUBLISHED)
            assert [c.n_written for c in counts] == [end - start for start, end in batch.ranges.values()]
            self.output |= {(n, offset) for n, (start, end) in batch.ranges.items() for offset in range(start, end)}

    def is_holder(self, attempt):
        batch = self.batches[attempt.batch_id]
        return batch.state is BatchState.WRITING and batch.fence == attempt.fence

    def publish_in_ledger(self, attempt):
        """Insert all offsets into a table, as a sink does."""

        def insert_output(ledger):
            with ledger.connection.cursor() as cursor:
                for p in attempt.ranges:
                    row = (self.pipeline.name, p.partition, p.offsets.start, p.offsets.end - 1)
                    cursor.execute("INSERT INTO output SELECT %s, %s, generate_series(%s, %s)", row)
            return publishing.Written(n_written={p.stream_id: len(p.offsets) for p in attempt.ranges})

        [topic] = self.broker.topic_facts()
        facts = {p.stream_id: topic.partitions[p.partition] for p in attempt.ranges}
        return publishing.publish(self.ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)

    @precondition(lambda self: self.attempts)
    @rule(number=any_number)
    def fail(self, number):
        attempt = self.attempts.pop(number % len(self.attempts))
        attempts.fail(self.ledger, attempt, "lost")
        if self.is_holder(attempt):
            self.batches[attempt.batch_id].become(BatchState.FAILED)

    @precondition(lambda self: self.attempts)
    @rule(number=any_number)
    def crash(self, number):
        """The attempt sends no heartbeat any more."""
        self.attempts.pop(number % len(self.attempts))

    @rule()
    def advance(self):
        assert heads.advance_published(self.ledger, self.pipeline.name) == self.model_advance()

    def model_advance(self):
        for partition in range(PARTITIONS):
            while (partition, self.heads[partition]) in self.output:
                self.heads[partition] += 1
        advanced = []
        for batch_id, batch in self.batches.items():
            passed = all(self.heads[n] >= end for n, (_, end) in batch.ranges.items())
            if batch.state is BatchState.PUBLISHED and passed:
                batch.become(BatchState.ADVANCED)
                advanced.append(batch_id)
        return advanced

    # Invariants ----------------------------------------------------------------------------------------------------

    @invariant()
    def batches_and_their_history_are_those_of_the_model(self):
        found = query(
            self.ledger,
            "SELECT batch_id, state::text, fence, array_agg(ARRAY[from_state, to_state] ORDER BY event_id)"
            " FROM tideline.batch JOIN tideline.event USING (batch_id) WHERE batch.pipeline = %s"
            " GROUP BY batch_id ORDER BY batch_id",
            self.pipeline.name,
        )
        assert found == [(n, b.state, b.fence, [list(change) for change in b.history]) for n, b in self.batches.items()]

    @invariant()
    def heads_are_those_of_the_model_and_coverage_tiles_what_they_passed(self):
        found = query(
            self.ledger,
            "SELECT partition, next_offset, (SELECT array_agg(ARRAY[lower(offsets), upper(offsets)] ORDER BY offsets)"
            " FROM tideline.coverage WHERE coverage.stream_id = stream.stream_id AND lower(offsets) < next_offset)"
            " FROM tideline.stream WHERE pipeline = %s",
            self.pipeline.name,
        )
        for partition, head, tiles in found:
            assert head == self.heads[partition]
            edges = [[0, 0], *(tiles or []), [head, head]]
            assert all(left[1] == right[0] for left, right in pairwise(edges))

    @invariant()
    def the_output_is_that_of_the_model(self):
        found = query(
            self.ledger, "SELECT kafka_partition, kafka_offset FROM output WHERE pipeline = %s", self.pipeline.name
        )
        assert sorted(found) == sorted(self.output)


def test_ledger_and_model_tell_the_same_story(ledger):
    query(ledger, "CREATE TABLE output (pipeline text, kafka_partition integer, kafka_offset bigint)")
    steps = settings(max_examples=settings.default.max_examples // 6, stateful_step_count=50)
    run_state_machine_as_test(lambda: LedgerMachine(ledger), settings=steps)
