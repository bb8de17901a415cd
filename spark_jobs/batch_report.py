"""Print the counts of a published batch to the log of its task."""

from collections.abc import Sequence

from tideline import job_log
from tideline.domain.states import BatchKind
from tideline.ledger.attempts import SHOWN_RANGES, Attempt
from tideline.ledger.publishing import Counts


def report(attempt: Attempt, counts: Sequence[Counts]) -> None:
    """Print the counts of a published batch: for each of the first streams (at most `SHOWN_RANGES`), and in total."""
    for count in counts[:SHOWN_RANGES]:
        # A re-drive reads only rejects: the offsets between them are other records, not gaps.
        gap = "" if attempt.kind is BatchKind.REDRIVE else f", gap {count.n_gap}"
        job_log.say(
            f"  {count.label}: read {count.n_read}, written {count.n_written}, rejected {count.n_rejected}, "
            f"filtered {count.n_filtered}{gap}"
        )
    if len(counts) > SHOWN_RANGES:
        job_log.say(f"  and {len(counts) - SHOWN_RANGES} more: tideline batch {attempt.batch_id}")
    total = [sum(values) for values in zip(*((c.n_read, c.n_written, c.n_rejected) for c in counts), strict=True)]
    job_log.say(f"{attempt}: published; read {total[0]}, written {total[1]}, rejected {total[2]}")
