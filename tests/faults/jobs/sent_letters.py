"""Compare the letters in a topic of rejects with the rejects in the ledger."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2

from faults.checker.record_fate import kept_headers
from faults.jobs.order_outputs import Output
from given_topics.output_topics import committed

_OWN_HEADERS = ["tideline-reason", "tideline-step", "tideline-origin"]
"""What follows the headers of the record, in this order."""
_OWED = "SELECT batch_id FROM tideline.letters WHERE pipeline = %s AND sent_at IS NULL"
# Each published batch has sent the rejects that it had at that moment: a replay has sent those of its own load once more.
_REJECTS = """
SELECT s.topic_id || '/' || s.partition || '/' || j.kafka_offset, j.key, j.value, j.headers, j.reason, j.step,
       (SELECT count(*) FROM tideline.batch_range r JOIN tideline.batch b USING (batch_id)
        WHERE r.stream_id = j.stream_id AND r.offsets @> j.kafka_offset AND b.kind <> 'redrive'
          AND b.state IN ('published', 'advanced', 'superseded'))
FROM tideline.reject j JOIN tideline.stream s USING (stream_id) WHERE s.pipeline = %s"""


def differences(output: Output, url: str, bootstrap: str) -> list[str]:
    """Return the letters that are missing, sent too often, altered, or of no reject. Call it after upkeep, when nothing runs."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(_OWED, (output.pipeline,))
        owed = [f"batch {batch_id} still owes its letters" for (batch_id,) in cursor.fetchall()]
        cursor.execute(_REJECTS, (output.pipeline,))
        rejects = {origin: reject for origin, *reject in cursor.fetchall()}
    sent = defaultdict(list)
    for message in committed(bootstrap, output.letters):
        sent[dict(message.headers())["tideline-origin"].decode()].append(message)
    strange = [f"{origin}: a letter, and no reject" for origin in sent.keys() - rejects.keys()]
    return [*owed, *strange, *(text for origin in rejects for text in _of(origin, rejects[origin], sent[origin]))]


def _of(origin: str, reject: list[Any], letters: list[Any]) -> Iterator[str]:
    key, value, headers, reason, step, most = reject
    if not 1 <= len(letters) <= most:
        yield f"{origin}: {len(letters)} letters, expected 1 to {most}"
    wanted = [(reason or "").encode(), step.encode(), origin.encode()]
    for letter in letters:
        found = letter.headers()
        if (letter.key(), letter.value()) != (_bytes(key), _bytes(value)):
            yield f"{origin}: another key or value than the reject"
        if found[-3:] != list(zip(_OWN_HEADERS, wanted, strict=True)):
            yield f"{origin}: {found[-3:]}, expected {wanted}"
        if tuple(found[:-3]) != kept_headers(_bytes(headers)):
            yield f"{origin}: other headers than those of the record: {found[:-3]}"


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)
