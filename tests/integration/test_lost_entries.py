"""No query of the ledger lets Postgres lose entries of the indexes that keep an offset from getting two owners."""

from given_ledger.ledgers import plan, query, start_streams

NESTED_LOOPS = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
)
BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on;"
ONE_BY_ONE = "SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = off;"
OF_STREAM = (
    "SELECT count(*) FROM tideline.coverage WHERE int8range(stream_id, stream_id, '[]') && int8range({0}, {0}, '[]')"
)
OWNED = "INSERT INTO tideline.coverage (stream_id, offsets, batch_id) "


def test_offsets_that_get_another_owner_leave_every_entry_in_the_index(ledger):
    """The leaf that is the root has dead entries, and is divided by what the statement inserts while its join scans the index."""
    one, other = start_streams(ledger, 2)
    batch_id = plan(ledger, {one: (1, 2), other: (1, 2)})
    # A vacuum would remove the dead entries that the scan marks.
    query(ledger, "ALTER TABLE tideline.coverage SET (autovacuum_enabled = off)")
    query(ledger, "SET session_replication_role = replica")  # without the laws: only the index is looked at
    for _ in range(40):
        query(ledger, f"{OWNED} VALUES ({one}, '[0,3)', 1); DELETE FROM tideline.coverage")
    query(ledger, f"{OWNED} SELECT {other}, int8range(number, number + 1), 1 FROM generate_series(1, 93) AS number")
    query(ledger, f"{OWNED} VALUES ({one}, '[0,3)', 1)")
    query(ledger, NESTED_LOOPS)
    with ledger.transaction():
        ledger.run("uncover_ranges", batch_id=batch_id)
    [(pages,)] = query(ledger, "SELECT pg_relation_size('tideline.one_owner_in_output') / 8192")
    assert pages > 1, "the index was not divided"
    for stream in (one, other):
        counted = [query(ledger, how + OF_STREAM.format(stream)) for how in (BY_INDEX, ONE_BY_ONE)]
        assert counted[0] == counted[1]


def test_no_function_that_scans_such_an_index_is_put_into_a_query(ledger):
    """There it would be the inner side of a join, whose scan is started again for each row. A function with a setting never is."""
    found = query(
        ledger,
        "SELECT proname FROM pg_proc WHERE pronamespace = 'tideline'::regnamespace AND prosrc ~ 'offsets::int8range && wanted' AND proconfig IS NULL",
    )
    assert found == []
