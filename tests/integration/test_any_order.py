"""Moves of all kinds in any order, with crashes in between: the ledger, its coverage and the output always agree, and nothing ever jams."""

from itertools import count, pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from asking import query
from ledger_model import Log
from ledgers import stage
from planners import declared
from tideline import flow
from tideline.declaration import Limits
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, NeedsOperatorError, SupersededError, TidelineError
from tideline.ledger import attempts, heads, publishing
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.reservations import Run
from windows import at, window

NUMBERS = count()
WHY = "because"
LARGE = Limits(batch_records=200, run_batches=20)

partitions = st.integers(0, 2)
offsets = st.integers(0, 60)
lengths = st.integers(1, 15)
any_number = st.integers(0, 99)
"""Which of the things there are, by remainder."""


class Moves(RuleBasedStateMachine):
    """One pipeline over a log in memory. A move may be refused; it must never fail in another way, and what it leaves must be whole."""

    delivery = "exactly_once"

    def __init__(self, ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.log = Log(20, 7, 0)
        self.pipeline = declared(
            "nowhere:9092",
            "ads",
            name=f"moves_{next(NUMBERS)}",
            source={"delivery": self.delivery},
            batch_records=8,
            run_batches=2,
        )
        self.runs = 0
        self.zombies: list[Attempt] = []

    # What happens to the log ---------------------------------------------------------------------------------------

    @rule(partition=partitions, number=lengths)
    def records_arrive(self, partition, number):
        self.log.ends[partition] += number

    @rule(partition=partitions, number=st.integers(1, 4))
    def retention_passes(self, partition, number):
        self.log.starts[partition] = min(self.log.starts[partition] + number, self.log.ends[partition])

    @rule(partition=partitions, number=st.integers(1, 6))
    def the_log_is_cut(self, partition, number):
        self.log.ends[partition] = max(self.log.ends[partition] - number, self.log.starts[partition])

    @rule(ends=st.tuples(*[st.integers(0, 30)] * 3))
    def the_topic_is_created_again(self, ends):
        self.log.create_again(*ends)

    # What is asked for ---------------------------------------------------------------------------------------------

    @initialize()
    def begin(self):
        self.ask(NewRecords())

    def ask(self, request, name=None):
        if name is None:
            self.runs += 1
            name = f"run {self.runs}"
        run = Run(dag_id="moves", run_id=name)
        try:
            return flow.plan(self.ledger, self.log, self.pipeline, run, request, reason=WHY).batch_ids
        except (FatalError, NeedsOperatorError):
            return []

    @rule()
    def plan_what_is_new(self):
        self.ask(NewRecords())

    @rule(since=offsets, minutes=lengths)
    def plan_an_hour(self, since, minutes):
        self.ask(NewRecords(since=at(since), until=at(since + minutes)))

    @rule(start=offsets, minutes=lengths, replace=st.booleans())
    def plan_a_window(self, start, minutes, replace):
        self.ask(window(start, start + minutes, replace=replace))

    @rule(partition=partitions, start=offsets, number=lengths, replace=st.booleans())
    def plan_ranges(self, partition, start, number, replace):
        self.ask(Ranges(ranges=(NamedRange("ads", partition, OffsetRange(start, start + number)),), replace=replace))

    @rule(number=any_number, replace=st.booleans())
    def plan_a_batch(self, number, replace):
        if found := self.batches():
            self.ask(OneBatch(batch_id=found[number % len(found)], replace=replace))

    @rule(number=any_number)
    def clear_a_run(self, number):
        self.ask(NewRecords(), f"run {number % self.runs + 1}")

    # What is decided -----------------------------------------------------------------------------------------------

    def decide(self, verb, *asked):
        try:
            verb(*asked, reason=WHY)
        except FatalError:
            return

    @rule(number=any_number)
    def abandon(self, number):
        if found := self.batches():
            self.decide(flow.abandon, self.ledger, found[number % len(found)])

    @rule(partition=partitions, start=offsets, number=lengths)
    def skip(self, partition, start, number):
        piece = NamedRange("ads", partition, OffsetRange(start, start + number))
        self.decide(flow.skip, self.ledger, self.log, self.pipeline, piece)

    @rule(partition=st.one_of(st.none(), partitions))
    def accept_loss(self, partition):
        self.decide(flow.accept_loss, self.ledger, self.log, self.pipeline, "ads", partition)

    @rule()
    def adopt_topic(self):
        self.decide(flow.adopt_topic, self.ledger, self.log, self.pipeline, "ads")

    # What writers do -----------------------------------------------------------------------------------------------

    @rule(number=any_number)
    def write(self, number):
        """From claim to publish; what cannot be read fails, as in a Spark job."""
        if found := self.batches("planned", "failed", "writing"):
            self.write_batch(found[number % len(found)])

    @rule(number=any_number)
    def claim_and_vanish(self, number):
        if found := self.batches("planned", "failed", "writing"):
            attempt = self.claim(found[number % len(found)])
            stage(self.ledger, attempt)
            self.zombies.append(attempt)
            query(
                self.ledger,
                "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour' WHERE ended_at IS NULL",
            )

    @rule(number=any_number)
    def one_that_vanished_comes_back(self, number):
        if self.zombies:
            attempt = self.zombies.pop(number % len(self.zombies))
            try:
                self.publish(attempt)
            except (SupersededError, NeedsOperatorError):
                return

    def claim(self, batch_id):
        writer = Writer(dag_id="moves", run_id="writer", task_id="write", try_number=1)
        claimed = attempts.claim(self.ledger, batch_id, writer, stale_after_seconds=60)
        assert isinstance(claimed, Attempt)
        return claimed

    def write_batch(self, batch_id):
        attempt = self.claim(batch_id)
        try:
            flow.check_source(self.ledger, self.log, attempt)
            stage(self.ledger, attempt)
            self.publish(attempt)
        except TidelineError as error:
            attempts.fail(self.ledger, attempt, str(error))

    def publish(self, attempt):
        """As a sink does: a replay replaces by coordinates; the table's key refuses what is there already."""

        def insert_output(ledger):
            with ledger.connection.cursor() as cursor:
                for p in attempt.ranges:
                    place = (self.pipeline.name, p.stream_id, p.offsets.start, p.offsets.end - 1)
                    if attempt.kind is BatchKind.REPLAY:
                        cursor.execute(
                            "DELETE FROM output WHERE pipeline = %s AND stream_id = %s AND kafka_offset BETWEEN %s AND %s",
                            place,
                        )
                    cursor.execute(
                        "INSERT INTO output SELECT %s, %s, generate_series(%s, %s), %s", (*place, attempt.batch_id)
                    )
            return publishing.Written(n_written={p.stream_id: len(p.offsets) for p in attempt.ranges})

        flow.publish(self.ledger, self.log, self.pipeline, attempt, insert_output, filtered_by_difference=False)

    @rule()
    def advance(self):
        heads.advance_published(self.ledger, self.pipeline.name)

    # What is always true -------------------------------------------------------------------------------------------

    def batches(self, *states):
        found = query(
            self.ledger,
            "SELECT batch_id, state::text FROM tideline.batch WHERE pipeline = %s ORDER BY 1",
            self.pipeline.name,
        )
        return [batch_id for batch_id, state in found if not states or state in states]

    def streams(self):
        return query(
            self.ledger,
            "SELECT stream_id, partition, start_offset, next_offset, state::text FROM tideline.stream WHERE pipeline = %s ORDER BY 2",
            self.pipeline.name,
        )

    def coverage(self, stream_id):
        return query(
            self.ledger,
            "SELECT lower(offsets), upper(offsets), batch_id FROM tideline.coverage WHERE stream_id = %s ORDER BY 1",
            stream_id,
        )

    @invariant()
    def coverage_tiles_what_the_heads_have_passed(self):
        for stream_id, _, start, head, _ in self.streams():
            passed = [(max(a, start), min(b, head)) for a, b, _ in self.coverage(stream_id) if a < head and b > start]
            edges = [(start, start), *passed, (head, head)]
            assert all(left[1] == right[0] for left, right in pairwise(edges))

    @invariant()
    def each_row_is_owned_by_the_batch_that_coverage_names(self):
        found = query(
            self.ledger, "SELECT stream_id, kafka_offset, batch_id FROM output WHERE pipeline = %s", self.pipeline.name
        )
        owned = {
            (stream_id, offset, batch_id)
            for stream_id, *_ in self.streams()
            for start, end, batch_id in self.coverage(stream_id)
            if batch_id is not None
            for offset in range(start, end)
        }
        assert set(found) == owned

    def teardown(self):
        """When people have decided what is to be decided and writers write, everything is through."""
        self.decide(flow.adopt_topic, self.ledger, self.log, self.pipeline, "ads")
        self.decide(flow.accept_loss, self.ledger, self.log, self.pipeline, "ads", None)
        self.log.ends = [end + 300 for end in self.log.ends]  # what was cut has grown past all that was ever read
        self.pipeline = self.pipeline.model_copy(update={"limits": LARGE})
        for _ in range(60):
            given = self.ask(NewRecords())
            for batch_id in given:
                self.write_batch(batch_id)
            for batch_id in self.batches("failed"):
                self.decide(flow.abandon, self.ledger, batch_id)  # what was asked for and is gone
            self.decide(flow.accept_loss, self.ledger, self.log, self.pipeline, "ads", None)
            if not given:
                break
        heads.advance_published(self.ledger, self.pipeline.name)
        assert self.batches("planned", "writing", "failed", "published") == []
        followed = [(head, state) for *_, head, state in self.streams() if state != "retired"]
        assert followed == [(end, "active") for end in self.log.ends]
        self.coverage_tiles_what_the_heads_have_passed()
        self.each_row_is_owned_by_the_batch_that_coverage_names()


class MovesOfTheLatest(Moves):
    """The same for a pipeline that wants the newest records."""

    delivery = "latest_wins"


def run_all(ledger, machine):
    query(
        ledger,
        "CREATE TABLE output"
        " (pipeline text, stream_id bigint, kafka_offset bigint, batch_id bigint, PRIMARY KEY (stream_id, kafka_offset))",
    )
    steps = settings(deadline=None, derandomize=True, max_examples=30, stateful_step_count=40)
    run_state_machine_as_test(lambda: machine(ledger), settings=steps)


def test_any_order_of_moves_leaves_everything_accounted_for_and_nothing_jammed(ledger):
    run_all(ledger, Moves)


def test_any_order_of_moves_of_a_pipeline_that_wants_the_latest(ledger):
    run_all(ledger, MovesOfTheLatest)
