"""Asset events: each published batch has one.

The checks of events are skipped where the test did not ask Airflow which events exist.
"""

from collections import Counter
from collections.abc import Iterator

from faults.checker.facts import Violation
from faults.checker.index import PUBLISHED, Index


def outbox(index: Index) -> Iterator[Violation]:
    there = Counter(each.batch_id for each in index.found.outbox)
    for batch in index.found.batches:
        wanted = int(batch.state in PUBLISHED)
        if there[batch.batch_id] != wanted:
            text = f"is {batch.state}, and is in the outbox {there[batch.batch_id]} times"
            yield Violation("outbox", f"batch {batch.batch_id}", text)
    if index.found.asset_events is not None:
        with_event = {batch_id for batch_id, _ in index.found.asset_events}
        for each in index.found.outbox:
            if each.announced and each.batch_id not in with_event:
                yield Violation("outbox", f"batch {each.batch_id}", "is marked as announced, and has no asset event")


def announced_twice(index: Index) -> Iterator[Violation]:
    for (batch_id, attempt), number in Counter(index.found.asset_events or ()).items():
        batch = index.batches.get(batch_id)
        if batch is None or batch.state not in PUBLISHED or batch.attempt != attempt:
            state = batch and f"{batch.state} by attempt {batch.attempt}"
            text = f"has an event of attempt {attempt}, and is {state}"
            yield Violation("announced twice", f"batch {batch_id}", text)
        elif number > 1:
            yield Violation("announced twice", f"batch {batch_id}", f"has {number} asset events")


def unannounced(index: Index) -> Iterator[Violation]:
    """Yield published batches without an asset event. Checked only after all runs have finished."""
    if index.found.asset_events is None:
        return
    with_event = {batch_id for batch_id, _ in index.found.asset_events}
    for batch in index.found.batches:
        if batch.state in PUBLISHED and batch.batch_id not in with_event:
            yield Violation("unannounced", f"batch {batch.batch_id}", f"is {batch.state}, and has no asset event")
