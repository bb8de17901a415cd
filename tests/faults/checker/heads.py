"""Streams and their heads: each move of a head is checked, and moves only go forward."""

from collections import Counter
from collections.abc import Iterator

from faults.checker.facts import Stream, Violation
from faults.checker.index import Index


def twins(index: Index) -> Iterator[Violation]:
    known = Counter((stream.cluster_id, stream.topic_id, stream.partition) for stream in index.found.streams)
    for place, number in known.items():
        if number > 1:
            yield Violation("twins", f"partition {place[2]} of topic {place[1]}", f"{number} streams follow it")


def head_behind_start(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        if stream.next_offset < stream.start_offset:
            yield Violation(
                "head behind start", str(stream), f"begins at {stream.start_offset}, the head is {stream.next_offset}"
            )


def head_moved_back(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        for start, end in _moves(index, stream):
            if end <= start:
                yield Violation("head moved back", str(stream), f"from {start} to {end}")


def head_history(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        at = None if index.pruned else stream.start_offset
        for start, end in _moves(index, stream):
            if at is not None and start != at:
                yield Violation("head history", str(stream), f"the head was {at} and moved from {start} to {end}")
            at = end
        if at is not None and stream.next_offset != at:
            yield Violation(
                "head history", str(stream), f"the head is {stream.next_offset}, and its history ends at {at}"
            )


def advanced_early(index: Index) -> Iterator[Violation]:
    for piece in index.found.ranges:
        batch, stream = index.batches.get(piece.batch_id), index.streams.get(piece.stream_id)
        if batch is None or stream is None or stream.state == "retired" or index.was_rewound(batch.batch_id):
            continue
        if batch.kind == "live" and batch.state in {"advanced", "superseded"} and stream.next_offset < piece.end:
            text = f"is {batch.state} and ends at {piece.end}, the head of {stream} is {stream.next_offset}"
            yield Violation("advanced early", f"batch {batch.batch_id}", text)


def _moves(index: Index, stream: Stream) -> Iterator[tuple[int, int]]:
    for event in index.stream_events.get(stream.stream_id, ()):
        if event.action == "move head":
            yield event.detail["from"], event.detail["to"]
