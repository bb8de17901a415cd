"""The contract that every sink passes: whenever a driver dies, each record is visible once, as the ledger counts it.

A sink's tests subclass `SinkContract` and give the fixture `case`. docs/contributing-a-sink.md says what each test is about.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import records
from loads.loading import Loading
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, Ranges
from tideline.errors import FatalError, RetryableError, SupersededError
from tideline.flow import settling
from tideline.ledger.connection import CommitUnknownError, Ledger
from tideline.sinks.sink import OutcomeUnknownError
from tideline.spark_jobs.heartbeat import Work

WHY = "the reason of a test"
N = 12
BROKEN = (3, 7)
"""Offsets of records that are no JSON."""
GOOD = [(0, offset) for offset in range(N) if offset not in BROKEN]
FILTERS_ALL = """\
    def records(batch):
        return batch.slice(0, 0)
"""


class KilledError(BaseException):
    """Where a driver dies. No `except Exception` catches it, as none is run by a process that dies."""


@dataclass(slots=True, kw_only=True)
class SinkCase:
    """One sink with a pipeline that writes to it."""

    loading: Loading
    topic: str
    declare: Callable[[str], object]
    """Writes the pipeline's folder, with this transform. `rejects.fail_above` is 1."""
    visible: Callable[[], list[tuple[int, int]]]
    """Returns partition and offset of the record of each row that readers see, sorted."""
    loses_answer: Callable[[pytest.MonkeyPatch], object]
    """Lets the next commit take effect, and its answer be lost."""
    outside: bool = True
    replays: bool = True

    def produce(self, *broken: int, count: int = N) -> None:
        values = [
            "no JSON" if n in broken else json.dumps({"id": n, "name": f"n{n}", "price": 1.25}) for n in range(count)
        ]
        records.produce(self.loading.bootstrap, self.topic, values, partitions=1)

    def counts(self) -> tuple[int, int, int]:
        """Return how many records the ledger counts as read, written and rejected, over all published batches."""
        found = self.loading.counts()
        return found["n_read"], found["n_written"], found["n_rejected"]


def loses_answer_of(output: type) -> Callable[[pytest.MonkeyPatch], None]:
    """Return the `loses_answer` of an outside sink, given the class of its output."""

    def lose(monkeypatch: pytest.MonkeyPatch) -> None:
        real: Any = output.commit  # type: ignore[attr-defined]

        def commit(self: Any, publication: Any, staged: Any) -> Any:
            monkeypatch.setattr(output, "commit", real)
            real(self, publication, staged)
            raise OutcomeUnknownError("no answer came", next_step="run the task again")

        monkeypatch.setattr(output, "commit", commit)

    return lose


def loses_answer_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the answer to the COMMIT that publishes."""
    real: Any = Ledger.transaction
    rows: Any = Ledger.rows
    published: list[bool] = []

    def watched(self: Ledger, verb: str, **parameters: Any) -> Any:
        published.extend([True] if verb == "publish_batch" else [])
        return rows(self, verb, **parameters)

    @contextmanager
    def transaction(self: Ledger) -> Iterator[Ledger]:
        with real(self):
            yield self
        if published:
            monkeypatch.setattr(Ledger, "transaction", real)
            monkeypatch.setattr(Ledger, "rows", rows)
            raise CommitUnknownError("the connection was lost", next_step="run the task again")

    monkeypatch.setattr(Ledger, "rows", watched)
    monkeypatch.setattr(Ledger, "transaction", transaction)


def killed(*_: Any, **__: Any) -> None:
    raise KilledError


def failing(*_: Any, **__: Any) -> None:
    raise RetryableError("the driver fails", next_step="run the task again")


class SinkContract:
    """The tests. A subclass has the fixture `case`."""

    @pytest.fixture(autouse=True)
    def declared(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        case.declare("")
        monkeypatch.setattr(settling, "load_named", lambda _: case.loading.pipeline)

    def door(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch, act: Callable[..., Any], *, after: bool) -> None:
        """Call `act` once, just before or just after the next commit takes effect."""
        name = ("settle" if after else "intend") if case.outside else "publish"
        real = getattr(flow, name)

        def call(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(flow, name, real)
            if case.outside == after:  # before it settles, or before it publishes
                act()
                return real(*arguments, **named)
            result = real(*arguments, **named)
            act()
            return result

        monkeypatch.setattr(flow, name, call)

    def fails(self, case: SinkCase, run: str, batches: list[int], error: type[BaseException] = KilledError) -> None:
        with pytest.raises(error):
            case.loading.write(run, batches)

    def test_each_record_is_visible_once_and_counted(self, case: SinkCase) -> None:
        case.produce(*BROKEN)
        case.loading.run()
        assert (case.visible(), case.counts()) == (GOOD, (N, N - 2, 2))

    def test_a_driver_that_dies_before_its_commit_leaves_nothing(
        self, case: SinkCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.produce(*BROKEN)
        batches = case.loading.plan("run")
        self.door(case, monkeypatch, killed, after=False)
        self.fails(case, "run", batches)
        assert case.visible() == []
        case.loading.write("run", batches, try_number=2)
        assert (case.visible(), case.counts()) == (GOOD, (N, N - 2, 2))

    def test_a_driver_that_dies_after_its_commit_is_published_by_the_next_attempt(
        self, case: SinkCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.produce(*BROKEN)
        batches = case.loading.plan("run")
        self.door(case, monkeypatch, killed, after=True)
        self.fails(case, "run", batches)
        assert case.visible() == GOOD
        case.loading.write("run", batches, try_number=2)
        assert (case.visible(), case.counts()) == (GOOD, (N, N - 2, 2))
        assert case.loading.states() == ["published"]

    def test_a_commit_whose_answer_is_lost_is_looked_up(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        case.produce(*BROKEN)
        batches = case.loading.plan("run")
        case.loses_answer(monkeypatch)
        case.loading.write("run", batches)
        assert (case.visible(), case.counts()) == (GOOD, (N, N - 2, 2))
        assert [outcome for outcome, _ in case.loading.attempts()] == ["published"]

    def test_an_orphan_that_commits_after_its_retry_is_refused(
        self, case: SinkCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A real orphan is another process: its heartbeat cannot cancel the jobs of the retry.
        monkeypatch.setattr(Work, "cancel", lambda _: None)
        case.produce(*BROKEN)
        batches = case.loading.plan("run")
        self.door(case, monkeypatch, lambda: case.loading.write("run", batches, try_number=2), after=False)
        self.fails(case, "run", batches, SupersededError)
        assert (case.visible(), case.counts()) == (GOOD, (N, N - 2, 2))
        assert [outcome for outcome, _ in case.loading.attempts()] == ["superseded", "published"]

    def test_a_batch_that_is_abandoned_never_becomes_visible(
        self, case: SinkCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.produce()
        [batch] = case.loading.plan("run")

        def forced() -> None:
            with case.loading.ledger() as ledger:
                flow.abandon(ledger, batch, reason=WHY, force=True)

        self.door(case, monkeypatch, forced, after=False)
        self.fails(case, "run", [batch], SupersededError)
        assert (case.visible(), case.loading.states()) == ([], ["abandoned"])
        case.loading.run()
        assert case.visible() == [(0, offset) for offset in range(N)]

    def test_what_is_committed_cannot_be_abandoned(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        case.produce()
        [batch] = case.loading.plan("run")
        self.door(case, monkeypatch, failing, after=True)  # so that nothing but its commit stands against it
        self.fails(case, "run", [batch], RetryableError)
        with case.loading.ledger() as ledger, pytest.raises(FatalError, match="cannot be abandoned"):
            flow.abandon(ledger, batch, reason=WHY)

    def test_a_replay_changes_nothing(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        if not case.replays:
            pytest.skip("this sink refuses replays")
        case.produce(*BROKEN)
        case.loading.run()
        wanted = Ranges(ranges=(NamedRange(case.topic, 0, OffsetRange(2, 9)),), replace=True)
        [batch] = case.loading.plan("replay", wanted, reason=WHY)
        self.door(case, monkeypatch, killed, after=True)
        self.fails(case, "replay", [batch])
        case.loading.write("replay", [batch], try_number=2)
        assert case.visible() == GOOD

    def test_nothing_to_write_is_published(self, case: SinkCase) -> None:
        case.declare(FILTERS_ALL)
        case.produce()
        case.loading.run()
        assert (case.visible(), case.counts()) == ([], (N, 0, 0))

    def test_a_batch_of_rejects_only_is_published(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        case.produce(*range(N))
        batches = case.loading.plan("run")
        self.door(case, monkeypatch, killed, after=True)
        self.fails(case, "run", batches)
        case.loading.write("run", batches, try_number=2)
        assert (case.visible(), case.counts(), len(case.loading.rejects())) == ([], (N, 0, N), N)

    def test_rejects_are_driven_again_once(self, case: SinkCase, monkeypatch: pytest.MonkeyPatch) -> None:
        case.produce(*BROKEN)
        case.loading.run()
        [batch] = case.loading.plan("redrive", KeptRejects(), reason=WHY)
        self.door(case, monkeypatch, killed, after=True)
        self.fails(case, "redrive", [batch])
        case.loading.write("redrive", [batch], try_number=2)
        assert (case.visible(), len(case.loading.rejects())) == (GOOD, 2)
