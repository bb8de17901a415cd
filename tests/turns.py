"""Choose which of the costly test modules a commit runs: each commit one group, so that a few commits run all.

Their laws have other tests that each commit runs. `make test-all`, and a test that is named, take no turns.
"""

from itertools import chain

GROUPS: tuple[tuple[str, ...], ...] = (
    (
        "tests/e2e/test_restore.py",
        "tests/e2e/test_side_by_side.py",
        "tests/e2e/test_unfinished.py",
        "tests/faults/bad_input/test_hostile_names.py",
        "tests/integration/sinks/test_any_column_name.py",
        "tests/integration/sinks/test_kafka_topic.py",
        "tests/integration/test_frames.py",
        "tests/integration/test_half_open_link.py",
        "tests/integration/test_permissions.py",
        "tests/integration/test_rejects.py",
        "tests/integration/test_waking.py",
    ),
    (
        "tests/e2e/test_assets.py",
        "tests/e2e/test_forms.py",
        "tests/e2e/test_stops.py",
        "tests/faults/bad_input/test_hostile_words.py",
        "tests/integration/sinks/test_kafka_unknown_commit.py",
        "tests/integration/sinks/test_upsert_model.py",
        "tests/integration/test_adopted_topics.py",
        "tests/integration/test_cli_doctor.py",
        "tests/integration/test_cut_logs.py",
        "tests/integration/test_latest_wins.py",
        "tests/integration/test_redrive.py",
        "tests/integration/test_redrive_races.py",
    ),
    (
        "tests/e2e/test_kills.py",
        "tests/e2e/test_upkeep.py",
        "tests/faults/processes/test_delta_deaths.py",
        "tests/faults/processes/test_delta_races.py",
        "tests/integration/sinks/test_kafka_sink.py",
        "tests/integration/sinks/test_lake_readers.py",
        "tests/integration/test_authoring.py",
        "tests/integration/test_refused_rows.py",
        "tests/integration/test_sink_types.py",
        "tests/integration/test_source.py",
        "tests/integration/test_wheel.py",
    ),
    (
        "tests/e2e/test_backfill.py",
        "tests/e2e/test_plan_refuses.py",
        "tests/e2e/test_rejects.py",
        "tests/e2e/test_replay.py",
        "tests/faults/bad_input/test_bad_input.py",
        "tests/integration/sinks/test_dead_letters.py",
        "tests/integration/sinks/test_kafka_driver_deaths.py",
        "tests/integration/test_announcing.py",
        "tests/integration/test_cells.py",
        "tests/integration/test_cli_acts.py",
        "tests/integration/test_deadline.py",
        "tests/integration/test_job.py",
        "tests/integration/test_ledger_model.py",
        "tests/integration/test_local_stack.py",
        "tests/integration/test_claimed_outputs.py",
        "tests/integration/test_reading_splits.py",
        "tests/integration/test_sample_frames.py",
    ),
)
"""Of about the same processor time each: the times of `make test-all` tell."""


def left_out(number: int) -> list[str]:
    """Return the modules that do not have their turn at the commit of this number."""
    chosen = number % len(GROUPS)
    return [*chain.from_iterable(group for at, group in enumerate(GROUPS) if at != chosen)]
