"""Count what an attempt has staged for a topic, and reject the records whose rows could not be told apart."""

from psycopg2.extras import DictRow

from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.publishing import Written
from tideline.sinks import staging_tables
from tideline.sinks.kafka.staging import names, topic_query
from tideline.sinks.sink import Publication, Refused, StagedCommit
from tideline.sinks.staging_tables import staging_name


def counted(publication: Publication, attempt: Attempt) -> StagedCommit:
    """Return the numbers of rows and records of the winning tasks. If any row of a record was rejected, none of its rows is counted or sent.

    Raises:
        RetryableError: Staged rows are missing. Staging tables are unlogged, so a crash of the server empties them.
        FatalError: The transform has returned rows of records that the batch does not have.
    """
    n_discarded, twins = 0, True
    while twins:
        with publication.ledger.transaction():
            n_discarded += staging_tables.discard_rejected(
                publication.ledger, staging_name(attempt), _bound(publication, attempt)
            )
            found = _rows(publication, attempt, "count_staged")
            twins = any(row["n_rows"] > row["n_origins"] for row in found)
        if twins:
            _reject_twins(publication, attempt)
    n_rows = sum(row["n_rows"] for row in found)
    n_staged = sum(winner.n_rows for winner in publication.winners)
    if n_discarded + n_rows != n_staged:
        raise RetryableError(
            f"{attempt}: {n_staged} rows were staged, {n_discarded + n_rows} are there: did the server crash in between?",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    _check_origins(publication, attempt)
    return StagedCommit(
        Written(
            n_written={row["stream_id"]: row["n_written"] for row in found}, offsets=_redriven(publication, attempt)
        ),
        n_rows,
    )


def _reject_twins(publication: Publication, attempt: Attempt) -> None:
    with publication.ledger.transaction():
        twins = _rows(publication, attempt, "list_twins")
    reasons = {
        (row["stream_id"], row["kafka_offset"]): f"two rows of the record have the item {row['item']!r}"
        if row["item"] is not None
        else "the record has become several rows, and sink.item names no column that orders them"
        for row in twins
    }
    refused = [Refused(stream_id, offset, reason) for (stream_id, offset), reason in reasons.items()]
    n_rejected = publication.reject(refused)
    if n_rejected != len(refused):
        raise RetryableError(
            f"{attempt}: {len(refused)} records were refused, {n_rejected} of them could be read once more",
            next_step="run the task again",
        )


def _check_origins(publication: Publication, attempt: Attempt) -> None:
    with publication.ledger.transaction():
        [row] = _rows(publication, attempt, "count_foreign")
    if row["n_rows"]:
        raise FatalError(
            f"{attempt}: the transform returned {row['n_rows']} rows of records that the batch does not have",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )


def _redriven(publication: Publication, attempt: Attempt) -> list[tuple[int, int]]:
    """Return stream id and offset of each record that a re-drive sends: each may belong to another batch."""
    if attempt.kind is not BatchKind.REDRIVE:
        return []
    with publication.ledger.transaction():
        return staging_tables.written(publication.ledger, staging_name(attempt), _bound(publication, attempt))


def _rows(publication: Publication, attempt: Attempt, name: str) -> list[DictRow]:
    query = topic_query(name).format(**names(attempt))
    return publication.ledger.rows_of(query, _bound(publication, attempt))


def _bound(publication: Publication, attempt: Attempt) -> dict[str, object]:
    return {"attempt_id": attempt.attempt_id, "tasks": [winner.task for winner in publication.winners]}
