"""The form of the DAG `replay`: it takes one target, and always replaces."""

import pytest

from tideline.airflow.form_choices import REPLAY_FIELDS
from tideline.airflow.trigger_form import Triggered, replay
from tideline.domain.requests import OneBatch, Ranges, Window
from trigger_forms import END, FIRST, HOUR, START, mistakes


def replaying(**given):
    params = {**dict.fromkeys(REPLAY_FIELDS), "pipeline": "orders", "ranges": [], "reason": "prices were wrong"} | given
    return Triggered(run_type="manual", params=params, conf_keys=params.keys(), interval=HOUR)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"batch_id": 7}, OneBatch(batch_id=7, replace=True)),
        ({"ranges": [f"{FIRST}"]}, Ranges(ranges=(FIRST,), replace=True)),
        ({"window_start": START.isoformat(), "window_end": END.isoformat()}, Window(start=START, end=END, replace=True)),
    ],
)  # fmt: skip
def test_a_replay_always_replaces(given, expected):
    found = replay(replaying(**given))
    assert (found.request, found.reason) == (expected, "prices were wrong")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "nothing"),
        ({"batch_id": 7, "ranges": [f"{FIRST}"]}, "a batch and ranges"),
        ({"batch_id": 7, "window_end": END.isoformat()}, "a batch and a window"),
    ],
)
def test_a_replay_takes_one_thing(given, found):
    [mistake] = mistakes(replay, replaying(**given))
    assert mistake == (
        f"expected one thing to replay (`batch_id`, `ranges`, or `window_start` with `window_end`), found {found}"
    )


def test_a_replay_says_why_and_names_every_mistake():
    found = mistakes(replay, replaying(reason=" ", window_start="soon", load="ranges"))
    assert [line.split(":")[0] for line in found] == [
        "unknown conf load; known",
        "`reason` is missing",
        "`window_end` is missing",
        "`window_start`",
    ]
