"""Two batches without a common stream are folded in any order, and neither overwrites the states that the other has published."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from given_ledger.ledgers import PIPELINE, claim, stage, start_streams, wait_for_a_lock
from given_ledger.states import planned, positions, publish, staged, states
from tideline.errors import RetryableError
from tideline.ledger.connection import Ledger

ANN = '["ann"]'


def disjoint(ledger):
    """Plan two batches that share no stream, and return a claimed attempt at each."""
    one, other = start_streams(ledger, 2)
    attempts_ = [claim(ledger, planned(ledger, {stream_id: (0, 10)})) for stream_id in (one, other)]
    for attempt in attempts_:
        stage(ledger, attempt)
    return one, other, *attempts_


def test_batches_without_a_common_stream_may_be_folded_in_any_order(ledger):
    one, other, first, second = disjoint(ledger)
    publish(ledger, second, staged(ledger, second))
    publish(ledger, first, staged(ledger, first))
    assert {stream_id: row[0] for stream_id, row in positions(ledger).items()} == {one: 10, other: 10}


def test_a_batch_that_was_folded_beside_another_one_is_folded_again(ledger):
    """A key may come from streams of both. The later publication would put its state over that of the other, whose records would be lost."""
    one, other, first, second = disjoint(ledger)
    of_first = staged(ledger, first, [(1, ANN, one, {"clicks": 1}, None, 3)])
    of_second = staged(ledger, second, [(1, ANN, other, {"clicks": 2}, None, 4)])
    publish(ledger, first, of_first)
    with pytest.raises(
        RetryableError, match=f"another batch of {PIPELINE} was folded since the attempt read the states"
    ):
        publish(ledger, second, of_second)
    assert states(ledger) == {ANN: ({"clicks": 1}, one, 3, first.batch_id)}


def test_of_two_batches_that_are_published_at_the_same_moment_the_second_is_refused(ledger, ledger_url):
    one, other, first, second = disjoint(ledger)
    of_first = staged(ledger, first, [(1, ANN, one, {"clicks": 1}, None, 3)])
    of_second = staged(ledger, second, [(1, ANN, other, {"clicks": 2}, None, 4)])
    with Ledger(ledger_url, actor="two") as own, ThreadPoolExecutor(1) as pool:
        running = []

        def begin_the_other(_):
            running.append(pool.submit(publish, own, second, of_second))
            wait_for_a_lock(ledger_url)

        publish(ledger, first, of_first, also=begin_the_other)
        with pytest.raises(RetryableError, match=f"another batch of {PIPELINE} was folded"):
            running[0].result()
    assert states(ledger) == {ANN: ({"clicks": 1}, one, 3, first.batch_id)}
