"""Time that plan, advance, doctor and coverage take in the ledger, by length of its history and number of partitions. No broker, no Spark."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import large_ledger
from benchmarks.scene import Scene, say, table
from tideline.domain.checks import Verdict
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger import attempts, heads, publishing, queries, reservations
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.publishing import Written
from tideline.ledger.reservations import Reservation, Run
from tideline.reports.checks import ledger as checks
from tideline_stack.postgres import Postgres

TITLE = "The ledger after a long history, and with many partitions"
NAME = "history"
SIZES = ((100, 18), (10_000, 18), (1_000_000, 18), (10_000, 500), (10_000, 2_000))
"""Past batches, and partitions."""
ROUNDS = 5
Found = Mapping[tuple[int, int], Mapping[str, float]]
"""By past batches and partitions, the best seconds of each operation."""


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    found = _found(scene.folder)
    asked = list(found[SIZES[0]])
    return [
        f"What each asks of the ledger, in seconds, the best of {ROUNDS} rounds; the broker's answers are not in it. Each batch of the",
        "history had one range of ten offsets, and about every tenth of them a reject; the batch that is planned has ten more offsets of",
        "each partition.",
        "",
        *table(
            ("past batches", "partitions", *asked),
            (
                (f"{batches:,}", f"{partitions:,}", *(f"{found[batches, partitions][what]:.3f}" for what in asked))
                for batches, partitions in found
            ),
        ),
        "",
        f"`plan` and `advance` after {SIZES[2][0]:,} batches take {_ratio(found):.2f} times what they take after {SIZES[0][0]:,}.",
    ]


def _found(folder: Path) -> Found:
    """Measure all sizes on a server of their own, in rounds over all of them, so that a noisy moment affects all alike."""
    server = Postgres(folder / "history")
    server.start()
    try:
        sessions = {size: _filled(server, *size) for size in SIZES}
        seconds: dict[tuple[int, int], dict[str, list[float]]] = {size: {} for size in SIZES}
        for number in range(ROUNDS + 1):
            for size, ledger in sessions.items():
                for what, took in _asked(ledger, number).items():
                    seconds[size].setdefault(what, []).append(took)
        for ledger in sessions.values():
            ledger.close()
    finally:
        server.stop()
    # The first round warms up caches: pages, and plans that Postgres keeps.
    return {size: {what: min(took[1:]) for what, took in asked.items()} for size, asked in seconds.items()}


def _filled(server: Postgres, batches: int, partitions: int) -> Ledger:
    name = f"past_{batches}_{partitions}"
    server.ensure_database(name)
    ledger = Ledger(server.url(name), actor="bench")
    migrate(ledger)
    say(f"making a history of {batches:,} batches over {partitions:,} partitions")
    topic_id = "00000000-0000-0000-0000-000000000007"
    large_ledger.fill(ledger, NAME, batches=batches, partitions=partitions, topic_id=topic_id)
    return ledger


def _asked(ledger: Ledger, number: int) -> dict[str, float]:
    run = Run(dag_id=NAME, run_id=f"manual__{number}")
    seconds: dict[str, float] = {}
    with _timed(seconds, "plan"):
        batch_id = _plan(ledger, run)
    _write(ledger, batch_id, run)
    with _timed(seconds, "advance"):
        assert heads.advance_published(ledger, NAME) == [batch_id]
        assert heads.in_the_way(ledger, NAME, run) == []
        assert heads.stopped_streams(ledger, NAME) == []
    with _timed(seconds, "doctor"), queries.reading(ledger):
        found = [*checks.staging(ledger), *checks.laws(ledger, NAME)]
        assert all(check.verdict is Verdict.OK for check in found), found
    with _timed(seconds, "coverage"), queries.reading(ledger):
        queries.coverage(ledger, NAME)
        queries.holes(ledger, NAME)
    return seconds


def _plan(ledger: Ledger, run: Run) -> int:
    """Plan ten more offsets of each partition, with the statements of `flow.plan` after the broker has answered."""
    heads.advance_published(ledger, NAME)
    with ledger.transaction():
        reservations.lock_pipeline(ledger, NAME)
        assert reservations.batches_of_run(ledger, NAME, run) == []
        batch = {
            stream.stream_id: Reservation(
                offsets=OffsetRange(stream.next_offset, stream.next_offset + 10),
                gaps_allowed=False,
                facts=PartitionFacts(partition=stream.partition, log_start=0, end=stream.next_offset + 10),
            )
            for stream in reservations.streams(ledger, NAME)
        }
        reservations.average_bytes(ledger, NAME)
        assert reservations.open_batches(ledger, NAME) == []
        planned = reservations.reserve(ledger, NAME, run, BatchKind.LIVE, [batch])
        reservations.join_run(ledger, NAME, run, planned)
    return planned[0]


def _write(ledger: Ledger, batch_id: int, run: Run) -> None:
    writer = Writer(dag_id=run.dag_id, run_id=run.run_id, task_id="write", try_number=1)
    attempt = attempts.claim(ledger, batch_id, writer, stale_after_seconds=60)
    assert isinstance(attempt, Attempt)
    starts = [piece.offsets.start for piece in attempt.ranges]
    ids = [piece.stream_id for piece in attempt.ranges]
    with ledger.transaction():
        ledger.run(
            "stage_counts",
            attempt=attempt.attempt,
            stream_ids=ids,
            first_read=starts,
            last_read=[start + 9 for start in starts],
            n_read=[10] * len(ids),
            n_filtered=[0] * len(ids),
            n_bytes=[100] * len(ids),
        )
    publishing.publish(
        ledger,
        attempt,
        lambda _: Written(n_written=dict.fromkeys(ids, 10)),
        facts={
            piece.stream_id: PartitionFacts(partition=piece.partition, log_start=0, end=piece.offsets.end)
            for piece in attempt.ranges
        },
        filtered_by_difference=False,
    )


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    seconds[what] = time.monotonic() - begun


def _ratio(found: Found) -> float:
    few, many = (sum(found[size][what] for what in ("plan", "advance")) for size in (SIZES[0], SIZES[2]))
    return many / few
