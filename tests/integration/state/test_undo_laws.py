"""The laws of undo and rewind, tried from a psql prompt: Postgres itself refuses each violation, whatever the code does."""

from given_ledger.decisions import HOLE
from given_ledger.ledgers import PIPELINE, claim, execute, query, refused, stage
from given_ledger.states import (
    LATER,
    REWIND,
    SOONER,
    folded,
    out_of_turn,
    planned,
    positions,
    publish,
    read_again,
    refuses,
    staged,
)
from tideline.domain.states import BatchKind


def test_the_database_itself_keeps_how_states_and_positions_were(ledger, stream, two):
    first, second = two
    undo = query(
        ledger,
        "SELECT batch_id, key, existed, stream_id, value, expires_at, kafka_offset, of_batch FROM tideline.state_undo ORDER BY 1, 2",
    )
    none = (None,) * 5
    assert undo == [
        (first, '["ann"]', False, *none), (first, '["bob"]', False, *none),
        (second, '["ann"]', True, stream, {"clicks": 1}, LATER, 3, first), (second, '["bob"]', True, stream, {"clicks": 2}, None, 4, first),
        (second, '["cyd"]', False, *none),
    ]  # fmt: skip
    assert query(ledger, "SELECT * FROM tideline.state_position_undo ORDER BY 1") == [
        (first, stream, 0, None, None),
        (second, stream, 10, SOONER, first),
    ]


def test_undo_keeps_the_state_before_the_batch_however_often_it_changes_in_between(ledger, stream, two):
    attempt = claim(ledger, planned(ledger, {stream: (20, 30)}))
    stage(ledger, attempt)
    found = staged(
        ledger, attempt, [(1, '["ann"]', stream, {"clicks": 6}, None, 20), (1, '["cyd"]', stream, None, None, 21)]
    )

    def again(session):
        with session.connection.cursor() as cursor:
            cursor.execute("UPDATE tideline.state SET value = '{\"clicks\": 7}' WHERE key = '[\"ann\"]'")
            cursor.execute(
                "INSERT INTO tideline.state VALUES ('impressions', '[\"cyd\"]', %s, '{}', NULL, 29, %s)",
                (stream, attempt.batch_id),
            )

    publish(ledger, attempt, found, also=again)
    undo = "SELECT key, existed, value FROM tideline.state_undo WHERE batch_id = %s ORDER BY 1"
    assert query(ledger, undo, attempt.batch_id) == [('["ann"]', True, {"clicks": 5}), ('["cyd"]', True, {"clicks": 9})]


def test_no_client_writes_undo_or_deletes_it_while_it_is_kept(ledger, two):
    for table in ("state_undo", "state_position_undo"):
        assert "written with what it undoes" in refused(ledger, f"UPDATE tideline.{table} SET of_batch = NULL")
        assert "may still be rewound" in refused(ledger, f"DELETE FROM tideline.{table}")
    insert = "INSERT INTO tideline.state_undo (batch_id, key, existed) VALUES (%s, 'x', false)"
    assert "written with what it undoes" in refused(ledger, insert, two[1])


def test_undo_is_pruned_from_the_oldest_batch_on(ledger, two):
    prune = "UPDATE tideline.state_batch SET undo = 'pruned' WHERE batch_id = %s"
    assert "from the oldest batch on" in refused(ledger, prune, two[1])
    execute(ledger, prune + "; DELETE FROM tideline.state_undo WHERE batch_id = %s", two[0], two[0])
    assert "once, and nothing else changes" in refused(
        ledger, "UPDATE tideline.state_batch SET undo = 'kept' WHERE batch_id = %s", two[0]
    )


def test_undo_is_applied_by_a_rewind_from_the_newest_batch_back(ledger, two):
    apply = "UPDATE tideline.state_batch SET undo = 'applied' WHERE batch_id = %s"
    assert "by a rewind" in refused(ledger, apply, two[1])
    assert "from the newest batch back" in refused(ledger, REWIND + apply, PIPELINE, two[0])
    assert "to every key and every position" in refused(ledger, REWIND + apply, PIPELINE, two[1])


def test_a_rewind_restores_what_undo_says_and_nothing_else(ledger, stream, two):
    first, second = two
    wrong_batch = f"value = '{{\"clicks\": 1}}', expires_at = '{LATER}', kafka_offset = 3, batch_id = {second}"
    for change in (
        "UPDATE tideline.state SET value = '{\"clicks\": 3}'",
        "DELETE FROM tideline.state WHERE key = '[\"ann\"]'",
        f"UPDATE tideline.state SET {wrong_batch} WHERE key = '[\"ann\"]'",
    ):
        assert "goes back from batch to batch" in refused(ledger, REWIND + change, PIPELINE)
    move = "UPDATE tideline.state_position SET next_offset = %s, version = version + 1, batch_id = %s, max_time = %s"
    for wrong in ((0, None, None), (10, first, LATER), (9, first, SOONER)):
        assert "from batch to batch" in refused(ledger, REWIND + move, PIPELINE, *wrong)
    execute(ledger, REWIND + move, PIPELINE, 10, first, SOONER)


def test_only_a_rewind_leaves_rewound_holes(ledger, stream):
    hole = HOLE.replace("'skipped'", "'rewound'")
    assert "are not rewound" in refused(ledger, hole, stream, "[0, 10)")


def test_what_a_rewind_has_left_is_loaded_before_anything_after_it(ledger, stream):
    """Or records that were loaded once would be missing without a trace."""
    hole = HOLE.replace("'skipped'", "'rewound'")
    execute(ledger, REWIND + hole, PIPELINE, stream, "[0, 10)")
    attempt = out_of_turn(ledger, planned(ledger, {stream: (10, 20)}))
    found = staged(ledger, attempt)
    assert "it is folded up to 0, the range begins at 10" in refuses(ledger, attempt, found)
    folded(ledger, planned(ledger, {stream: (0, 10)}, kind=BatchKind.BACKFILL))
    publish(ledger, attempt, read_again(ledger, attempt, found))
    assert positions(ledger)[stream][0] == 20


def test_a_rewind_is_history(ledger, stream):
    execute(ledger, REWIND, PIPELINE)
    assert "its rows are history" in refused(ledger, "UPDATE tideline.rewind SET reason = 'another'")
    assert query(
        ledger, "SELECT action, pipeline, detail ->> 'reason' FROM tideline.event WHERE action = 'rewind'"
    ) == [("rewind", PIPELINE, "wrong processor")]
