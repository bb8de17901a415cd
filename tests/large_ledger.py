"""A ledger with a long history, created by SQL on the server in seconds: the rows of a pipeline that has run well for years."""

from tideline.ledger.connection import Ledger

OFFSETS = 10
"""Number of offsets of each range. The first offset of about every tenth range is a reject: a hash picks them, so that neighbours differ."""

_WITHOUT_TRIGGERS = "SET session_replication_role = replica"
_STATEMENTS = (
    "INSERT INTO tideline.pipeline (pipeline) VALUES (%(pipeline)s)",
    """
    INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset)
    SELECT %(pipeline)s, 'cluster', %(topic)s, %(topic_id)s, n, 0,
           %(offsets)s * (%(batches)s / %(partitions)s + CASE WHEN n < %(batches)s %% %(partitions)s THEN 1 ELSE 0 END)
    FROM generate_series(0, %(partitions)s - 1) AS n
    """,
    """
    INSERT INTO tideline.batch (pipeline, kind, state, fence, attempt, dag_id, run_id, seq, planned_at)
    SELECT %(pipeline)s, 'live', 'advanced', 1, gen_random_uuid(), %(pipeline)s, 'scheduled__' || n, 0,
           now() - (%(batches)s - n) * interval '1 minute'
    FROM generate_series(1, %(batches)s) AS n
    """,
    """
    CREATE TEMPORARY TABLE written AS
    SELECT b.*, row_number() OVER (ORDER BY batch_id) - 1 AS n FROM tideline.batch b WHERE pipeline = %(pipeline)s
    """,
    """
    CREATE TEMPORARY TABLE loaded AS
    SELECT batch_id, n, stream_id, int8range(n / %(partitions)s * %(offsets)s, (n / %(partitions)s + 1) * %(offsets)s) AS offsets,
           (abs(hashint8(n)::bigint) %% 10 = 1)::int AS n_rejected
    FROM written JOIN tideline.stream ON stream.pipeline = %(pipeline)s AND partition = n %% %(partitions)s
    """,
    """
    INSERT INTO tideline.attempt (attempt, batch_id, fence, ended_at, outcome, dag_id, run_id, task_id, try_number, host, pid)
    SELECT attempt, batch_id, 1, planned_at, 'published', dag_id, run_id, 'write', 1, 'host', 1 FROM written
    """,
    """
    INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, planned_log_start, planned_end, n_read, n_written, n_rejected,
                                      n_filtered, n_gap, first_read, last_read, published_log_start, published_end, n_bytes)
    SELECT batch_id, stream_id, offsets, false, lower(offsets), upper(offsets), %(offsets)s, %(offsets)s - n_rejected, n_rejected,
           0, 0, lower(offsets), upper(offsets) - 1, lower(offsets), upper(offsets), 100
    FROM loaded
    """,
    """
    INSERT INTO tideline.outbox (batch_id, pipeline, published_at, n_tries, dag_id, run_id, task_id, announced_at)
    SELECT batch_id, pipeline, planned_at, 1, dag_id, run_id, 'announce', planned_at FROM written
    """,
    "INSERT INTO tideline.coverage (stream_id, offsets, batch_id) SELECT stream_id, offsets, batch_id FROM loaded",
    "INSERT INTO tideline.run_batch (pipeline, dag_id, run_id, position, batch_id) SELECT pipeline, dag_id, run_id, 0, batch_id FROM written",
    """
    INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason, value)
    SELECT stream_id, lower(offsets), batch_id, attempt_id, 'decode', 'not a JSON object', '{' FROM loaded JOIN tideline.attempt USING (batch_id)
    WHERE n_rejected = 1
    """,
    """
    INSERT INTO tideline.event (at, actor, action, pipeline, batch_id, attempt, from_state, to_state)
    SELECT planned_at, 'task', action, pipeline, batch_id, attempt, from_state, to_state
    FROM written CROSS JOIN (VALUES ('plan', NULL, 'planned'), ('claim', 'planned', 'writing'), ('publish', 'writing', 'published'),
                                    ('advance', 'published', 'advanced')) AS step (action, from_state, to_state)
    """,
    """
    INSERT INTO tideline.event (at, actor, action, pipeline, stream_id, detail)
    SELECT now() - (%(batches)s - n) * interval '1 minute', 'task', 'move head', %(pipeline)s, stream_id,
           jsonb_build_object('from', lower(offsets), 'to', upper(offsets))
    FROM loaded
    """,
)


# Checking an exclusion constraint for each inserted row takes half a millisecond, for each of a million rows. Its index is built at once
# when it is rebuilt together with its table.
_INDEX_LATER = "UPDATE pg_index SET indisready = %(ready)s WHERE indexrelid IN"
_INDEX_LATER += " ('tideline.one_owner_in_output'::regclass, 'tideline.one_owner_per_offset'::regclass)"


def fill(ledger: Ledger, *pipelines: str, batches: int, partitions: int, topic: str = "ads", topic_id: str) -> None:
    """Insert pipelines with their history into a ledger: each of their batches has read one of the partitions, and all are advanced.

    The session must be a superuser's: the ledger's triggers are off meanwhile, for this session only. Every row still satisfies the laws.
    """
    bound = {"batches": batches, "partitions": partitions, "topic": topic, "topic_id": topic_id, "offsets": OFFSETS}
    ledger.connection.autocommit = True  # VACUUM requires it
    with ledger.connection.cursor() as cursor:
        cursor.execute(_WITHOUT_TRIGGERS)
        cursor.execute(_INDEX_LATER, {"ready": False})
        for pipeline in pipelines:
            for statement in _STATEMENTS:
                cursor.execute(statement, {**bound, "pipeline": pipeline})
            cursor.execute("DROP TABLE written, loaded")
        cursor.execute("VACUUM FULL tideline.batch_range")
        cursor.execute("VACUUM FULL tideline.coverage")
        cursor.execute(_INDEX_LATER, {"ready": True})
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("VACUUM ANALYZE")
    ledger.connection.autocommit = False
