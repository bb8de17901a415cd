"""What needs a person stands in the order in which it should be read, and is red only if it does not go on by itself."""

from tideline.errors import FatalError, RetryableError
from tideline.web.broker_cache import Compared
from tideline.web.needs import Level, of_brokers, of_ledger, worst_first

ACTIVE = {
    "stream_id": 1,
    "state": "active",
    "headroom": "> 75% of 7 d",
    "headroom_at_least": 0.75,
    "will_stop": False,
    "held": 0,
    "why": None,
}
DELETED = ACTIVE | {"headroom": "gone", "headroom_at_least": 0, "will_stop": True, "why": "offsets are lost"}
SHORT = ACTIVE | {"headroom": "< 25% of 7 d", "headroom_at_least": 0}
MISSING = FatalError("topic ads does not exist", next_step="create it")
RECENT = {"n_waiting": 0, "n_failed_waiting": 0, "n_rejected": 0, "n_read": 100}


def ledger(recent=None, broken=None, **counts):
    row = {"pipeline": "ads", "state": "ok", "n_stopped": 0, "n_failed": 0, "declared": True}
    return of_ledger(row | counts, RECENT | (recent or {}), broken)


def brokers(*rows, problem=None, missing=()):
    return of_brokers(Compared(rows=rows, problem=problem, missing=missing))


def worst(needs):
    return max(need.severity for need in needs)


def test_deleted_records_stand_above_stopped_partitions_and_these_above_failed_batches():
    kinds = [
        brokers(DELETED),
        brokers(SHORT),
        ledger(n_stopped=1),
        brokers(ACTIVE | {"will_stop": True, "why": "the topic was created again"}),
        brokers(ACTIVE | {"held": 3, "why": "a transaction hangs at its end"}),
        brokers(ACTIVE, missing=[MISSING]),
        ledger(broken="it has no source"),
        ledger(n_failed=1),
        brokers(problem=RetryableError("the brokers do not answer", next_step="wait")),
        ledger({"n_waiting": 1}),
        ledger({"n_rejected": 10}),
        ledger(declared=False),
        brokers(missing=[MISSING]),
    ]
    severities = [worst(needs) for needs in kinds]
    assert severities == sorted(set(severities), reverse=True)


def test_what_brokers_say_stands_above_what_the_ledger_says_if_it_is_worse():
    needs = worst_first(ledger({"n_rejected": 10}, n_failed=1) + brokers(SHORT))
    assert [need.text for need in needs] == [
        "1 partition: less than a quarter of the retention time is left",
        "1 failed batch: the next run tries again",
        "a tenth of the newest records or more was rejected",
    ]


def test_a_failed_batch_that_the_next_run_tries_again_is_to_be_looked_at():
    (need,) = ledger(n_failed=2)
    assert (need.level, need.text) == (Level.LOOK, "2 failed batches: the next run tries again")


def test_a_failed_replay_is_not_said_to_be_tried_again():
    (need,) = ledger({"n_waiting": 1, "n_failed_waiting": 1}, n_failed=1)
    assert need.text == "1 replay without a run: retry or abandon"


def test_deleted_records_are_named_before_and_after_the_partition_has_stopped():
    for row in (DELETED, DELETED | {"state": "stopped", "will_stop": False}):
        (need,) = brokers(row)
        assert (need.level, need.text) == (Level.ACT, "1 partition: records that were not read are deleted")


def test_a_pipeline_that_has_never_loaded_waits_for_its_topic_and_needs_no_person():
    new = ACTIVE | {"stream_id": None}  # a partition of another topic, which the first run will begin
    for rows in ((), (new,)):
        (need,) = brokers(*rows, missing=[MISSING])
        assert (need.level, need.text) == (Level.FINE, "waits for its topic: topic ads does not exist")


def test_a_pipeline_without_a_folder_names_the_command_that_retires_it_and_then_needs_nobody():
    (need,) = ledger(declared=False, state="not declared")
    assert need.level == Level.LOOK
    assert need.text.endswith("If it was given up: tideline retire ads --reason ...")
    assert ledger({"n_rejected": 90}, declared=False, state="retired", n_stopped=1) == []
