"""Moves of all kinds in any order, with faults in between, over both ledgers at once: they always agree, every law holds, and nothing jams."""

from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from asking import execute
from faults import records
from faults.checker import violations
from faults.memory.both import BothLedgers, Fault, KilledError
from faults.memory.finding import found
from faults.memory.kafka import Cluster, Log, MemoryBroker
from faults.memory.sink import MemorySink
from faults.memory.tables import differences
from faults.memory.working import Job, Staged, Truth
from planners import declared
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges, Rejects
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.ledger import attempts, heads
from tideline.ledger.attempts import Attempt, Held, Writer
from tideline.ledger.reservations import Run
from windows import at, window

NUMBERS = count(1)
WHY = "because"

partitions = st.integers(0, 2)
offsets = st.integers(0, 60)
lengths = st.integers(1, 15)
any_number = st.integers(0, 99)
"""Which of the things there are, by remainder."""


class Moves(RuleBasedStateMachine):
    """One pipeline. A move may be refused; it must never fail in another way, and what it leaves must be whole."""

    delivery = "exactly_once"

    def __init__(self, ledger: BothLedgers) -> None:
        super().__init__()
        self.ledger = ledger
        self.database = ledger.memory.database
        number = next(NUMBERS)
        self.name = f"moves_{number}"
        self.cluster = Cluster()
        self.cluster.create("ads", 20, 7, 0)
        self.declare(gaps="refused")
        self.table = f"ads.output_{number}"
        execute(ledger.real, records.TARGET.replace("ads.output", self.table))
        self.job = Job(ledger, MemorySink(self.database, self.table, records.OUTPUT, item="item"))
        self.truth = Truth(self.cluster)
        self.runs = self.n_cut = 0
        self.zombies: list[tuple[Attempt, Staged]] = []

    def declare(self, *, gaps: str, batch_records: int = 8, run_batches: int = 2) -> None:
        source = {"delivery": self.delivery, "gaps": gaps}
        limits = {"batch_records": batch_records, "run_batches": run_batches}
        self.pipeline = declared("nowhere:9092", "ads", name=self.name, source=source, **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    @property
    def logs(self) -> list[Log]:
        return self.cluster.topics["ads"].logs

    def attempted(self, verb, *asked, **named):
        """What a verb returns; None where it is refused, or a fault has struck."""
        fault = self.ledger.fault
        try:
            return verb(*asked, **named)
        except (FatalError, NeedsOperatorError, SupersededError):
            return None
        except (RetryableError, KilledError):
            assert fault is not None, "nothing was in the way"
            assert self.ledger.fault is None
            return None
        finally:
            if self.ledger.connection.closed:
                self.ledger.reconnect()

    # What happens to the log ---------------------------------------------------------------------------------------

    @rule(partition=partitions, number=lengths)
    def records_arrive(self, partition, number):
        self.logs[partition % len(self.logs)].append(number)

    @rule(partition=partitions, number=st.integers(1, 4))
    def retention_passes(self, partition, number):
        log = self.logs[partition % len(self.logs)]
        log.delete_before(log.start + number)

    @rule(partition=partitions, number=st.integers(1, 6))
    def the_log_is_cut(self, partition, number):
        log = self.logs[partition % len(self.logs)]
        log.cut(log.end - number)
        self.n_cut += number

    @rule(ends=st.lists(st.integers(0, 30), min_size=1, max_size=3))
    def the_topic_is_created_again(self, ends):
        self.cluster.create("ads", *ends)

    @rule(end=lengths)
    def a_partition_is_added(self, end):
        if len(self.logs) < 4:
            self.logs.append(Log(end))

    # What is asked for ---------------------------------------------------------------------------------------------

    @initialize()
    def begin(self):
        self.ask(NewRecords())

    def ask(self, request, name=None):
        if name is None:
            self.runs += 1
            name = f"run {self.runs}"
        run = Run(dag_id="moves", run_id=name)
        planned = self.attempted(flow.plan, self.ledger, self.broker, self.pipeline, run, request, reason=WHY)
        self.attempted(flow.published_by, self.ledger, self.name, run)
        return planned.batch_ids if planned else []

    @rule()
    def plan_what_is_new(self):
        self.attempted(flow.describe, self.ledger, self.ask(NewRecords()))

    @rule(since=offsets, minutes=lengths)
    def plan_an_hour(self, since, minutes):
        self.ask(NewRecords(since=at(since), until=at(since + minutes)))

    @rule(start=offsets, minutes=lengths, replace=st.booleans(), dry=st.booleans())
    def plan_a_window(self, start, minutes, replace, dry):
        request = window(start, start + minutes, replace=replace)
        if dry:
            self.attempted(flow.dry_run, self.ledger, self.broker, self.pipeline, request)
        self.ask(request)

    @rule(partition=partitions, start=offsets, number=lengths, replace=st.booleans())
    def plan_ranges(self, partition, start, number, replace):
        self.ask(Ranges(ranges=(NamedRange("ads", partition, OffsetRange(start, start + number)),), replace=replace))

    @rule(number=any_number, replace=st.booleans())
    def plan_a_batch(self, number, replace):
        if batch_id := self.one_of(self.batches(), number):
            self.ask(OneBatch(batch_id=batch_id, replace=replace))

    @rule(number=st.one_of(st.none(), any_number), text=st.sampled_from([None, "BROKEN", "refused"]))
    def plan_rejects(self, number, text):
        of = None if number is None else self.one_of(self.batches(), number)
        self.ask(Rejects(batch_id=of, reason_like=text))

    @rule(number=any_number)
    def clear_a_run(self, number):
        self.ask(NewRecords(), f"run {number % self.runs + 1}")

    # What is decided -----------------------------------------------------------------------------------------------

    @rule(number=any_number, verb=st.sampled_from([flow.abandon, flow.retry]))
    def decide_about_a_batch(self, number, verb):
        if batch_id := self.one_of(self.batches(), number):
            self.attempted(verb, self.ledger, batch_id, reason=WHY)

    @rule(partition=partitions, start=offsets, number=lengths)
    def skip(self, partition, start, number):
        self.decide(flow.skip, NamedRange("ads", partition, OffsetRange(start, start + number)))

    @rule(partition=st.one_of(st.none(), partitions))
    def accept_loss(self, partition):
        self.decide(flow.accept_loss, "ads", partition)

    @rule()
    def adopt_topic(self):
        self.decide(flow.adopt_topic, "ads")

    def decide(self, verb, *asked):
        self.attempted(verb, self.ledger, self.broker, self.pipeline, *asked, reason=WHY)

    @rule(gaps=st.sampled_from(["allowed", "refused"]))
    def declare_gaps(self, gaps):
        self.declare(gaps=gaps)

    @rule()
    def correct_the_transform(self):
        self.job.corrected = True

    # What writers do -----------------------------------------------------------------------------------------------

    @rule(number=any_number)
    def write(self, number):
        """From claim to publish; what cannot be read fails, as in a Spark job."""
        if batch_id := self.one_of(self.batches("planned", "failed", "writing"), number):
            self.write_batch(batch_id)

    @rule(number=any_number, silent=st.booleans())
    def claim_and_vanish(self, number, silent):
        if batch_id := self.one_of(self.batches("planned", "failed", "writing"), number):
            attempt = self.claim(batch_id)
            staged = attempt and self.attempted(self.job.stage, attempt)
            if staged:
                self.zombies.append((attempt, staged))
        if silent:
            self.ledger.fall_silent(3600)

    @rule(number=any_number)
    def claim_in_another_run(self, number):
        """Another run waits while the attempt is alive."""
        if batch_id := self.one_of(self.batches("writing"), number):
            writer = Writer(dag_id="moves", run_id="another", task_id="write", try_number=1)
            claimed = self.attempted(attempts.claim, self.ledger, batch_id, writer, stale_after_seconds=60)
            assert claimed is None or isinstance(claimed, Attempt | Held)

    @rule(number=any_number)
    def one_that_vanished_comes_back(self, number):
        if self.zombies:
            attempt, staged = self.zombies.pop(number % len(self.zombies))
            if self.attempted(attempts.beat, self.ledger, attempt.attempt):
                self.attempted(self.finish, attempt, staged)

    @rule(number=any_number, is_lost=st.booleans())
    def one_that_vanished_comes_back_to_publish(self, number, is_lost):
        """It has not noticed anything; its staging may be gone, or empty because the server has crashed."""
        if self.zombies:
            attempt, staged = self.zombies.pop(number % len(self.zombies))
            if is_lost:
                self.ledger.empty(staged.staging)
            self.attempted(self.finish, attempt, staged)

    def claim(self, batch_id):
        writer = Writer(dag_id="moves", run_id="writer", task_id="write", try_number=1)
        return self.attempted(attempts.claim, self.ledger, batch_id, writer, stale_after_seconds=60)

    def write_batch(self, batch_id):
        if attempt := self.claim(batch_id):
            self.attempted(self.finish, attempt)

    def finish(self, attempt, staged=None):
        """What a job does behind its claim, and if it can, it says why it has failed."""
        try:
            with attempts.failing(self.ledger, attempt):
                if staged is None:
                    flow.check_source(self.ledger, self.broker, attempt)
                    staged = self.job.stage(attempt)
                self.job.publish(self.broker, self.pipeline, attempt, staged)
        except RetryableError as error:
            if "are there" not in error.problem and "rejects" not in error.problem:
                raise

    @rule(kind=st.sampled_from(["killed", "lost", "kept"]), after=st.integers(0, 12))
    def something_goes_wrong(self, kind, after):
        """At one of the next steps."""
        self.ledger.fault = Fault(kind, after)

    @rule()
    def advance(self):
        run = Run(dag_id="moves", run_id=f"run {self.runs}")
        self.attempted(flow.advance, self.ledger, self.name, run)
        flow.show_heads(self.ledger, self.broker, self.name)

    @rule()
    def upkeep(self):
        self.attempted(flow.upkeep, self.ledger, self.pipeline)

    # What is always true -------------------------------------------------------------------------------------------

    def one_of(self, things, number):
        return things[number % len(things)] if things else None

    def batches(self, *states):
        mine = (batch for batch in self.database.batches.values() if batch.pipeline == self.name)
        return [batch.batch_id for batch in mine if not states or batch.state in states]

    @invariant()
    def every_law_holds(self):
        self.check(quiet=False)

    def check(self, *, quiet):
        broken = violations(found(self.database, self.name, self.table), self.truth, quiet=quiet)
        assert not broken, "\n".join(map(str, broken))

    def teardown(self):
        """When people have decided what is to be decided and writers write, everything is through; and both ledgers hold the same."""
        self.ledger.fault = None
        self.ledger.fall_silent(3600)  # nobody who has vanished comes back now
        self.declare(gaps="allowed", batch_records=200, run_batches=20)
        self.decide(flow.adopt_topic, "ads")
        self.decide(flow.accept_loss, "ads", None)
        for log in self.logs:
            log.append(1 + self.n_cut)  # what was cut has grown past all that was ever read
        for _ in range(60):
            given = self.ask(NewRecords())
            for batch_id in given:
                self.write_batch(batch_id)
            for batch_id in self.batches("failed"):
                self.attempted(flow.abandon, self.ledger, batch_id, reason=WHY)  # what was asked for and is gone
            self.decide(flow.accept_loss, "ads", None)
            if not given:
                break
        heads.advance_published(self.ledger, self.name)
        self.check(quiet=True)
        assert self.batches("planned", "writing", "failed", "published") == []
        assert not (only := differences(self.ledger.real, self.database)), "\n".join(only)


class MovesOfTheLatest(Moves):
    """The same for a pipeline that wants the newest records."""

    delivery = "latest_wins"
