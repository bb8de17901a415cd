"""A component of the local Airflow hangs when its heartbeat stays the same, and for no other reason."""

from tideline_stack.heartbeats import SILENT_S, Heartbeats

SCHEDULER = "scheduler"


def noted(*found):
    """Note the answers, one each minute, and return what hangs at the last one."""
    heartbeats = Heartbeats()
    for minute, answer in enumerate(found):
        heartbeats.note(answer, 60.0 * minute)
    return heartbeats.silent(60.0 * (len(found) - 1))


def test_a_component_whose_heartbeat_stays_the_same_hangs():
    assert noted(*[{SCHEDULER: "12:00", "triggerer": f"12:0{n}"} for n in range(5)]) == [SCHEDULER]


def test_a_component_hangs_after_its_time_and_not_before():
    assert SILENT_S == 180
    assert noted(*[{SCHEDULER: "12:00"}] * 4) == []
    assert noted(*[{SCHEDULER: "12:00"}] * 5) == [SCHEDULER]


def test_a_component_with_a_heartbeat_from_long_ago_that_moves_does_not_hang():
    assert noted(*[{SCHEDULER: f"12:0{n // 3}"} for n in range(9)]) == []


def test_time_without_an_answer_does_not_count():
    """The database was away, and nothing could send a heartbeat."""
    same = {SCHEDULER: "12:00"}
    assert noted(same, same, same, {}, same, same) == []
    assert noted(same, same, same, {SCHEDULER: None}, same, same) == []


def test_a_component_that_is_started_again_has_its_whole_time():
    heartbeats = Heartbeats()
    heartbeats.note({SCHEDULER: "12:00"}, 0)
    assert heartbeats.silent(200) == [SCHEDULER]
    heartbeats.forget(SCHEDULER)
    heartbeats.note({SCHEDULER: "12:00"}, 200)
    assert heartbeats.silent(300) == []
