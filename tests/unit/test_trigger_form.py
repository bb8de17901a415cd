"""The trigger form: the request of each choice, and that all mistakes are named at once."""

from datetime import datetime, timedelta, timezone

import pytest

from tideline.airflow.form_choices import INGEST_FIELDS, REWIND_FIELDS, Load
from tideline.airflow.trigger_form import Triggered, ingest
from tideline.domain.requests import KeptRejects, NewRecords, OneBatch, Ranges, Rewind, Window
from tideline.errors import FatalError
from trigger_forms import END, FIRST, HOUR, SECOND, START, mistakes

EMPTY = {**dict.fromkeys((*INGEST_FIELDS, *REWIND_FIELDS)), "load": "new records", "replace": False, "ranges": []}


def by_hand(run_type="manual", interval=None, **given):
    """Return a run with the fields of `given`, and the form's defaults for the others. Airflow's UI sends all of them as conf."""
    return Triggered(run_type=run_type, params=EMPTY | given, conf_keys=(EMPTY | given).keys(), interval=interval)


def asked(**given):
    return ingest(by_hand(**given)).request


def refused(**given):
    return mistakes(ingest, by_hand(**given))


# The request of each choice ------------------------------------------------------------------------------------------------------


def test_a_form_that_was_left_as_it_is_asks_for_new_records():
    assert ingest(by_hand()).request == NewRecords()
    assert ingest(by_hand()).reason is None


def test_new_records_end_where_the_form_says():
    assert asked(until="2026-11-21T14:00:00Z") == NewRecords(until=END)


def test_a_moment_keeps_its_zone():
    moment = asked(until="2026-11-21T16:00:00+02:00").until
    assert (moment, moment.utcoffset()) == (END, timedelta(hours=2))


def test_a_window_is_half_open_between_its_two_moments():
    given = {"window_start": START.isoformat(), "window_end": END.isoformat()}
    assert asked(load="a window", **given) == Window(start=START, end=END)


def test_ranges_are_read_as_logs_print_them():
    expected = Ranges(ranges=(FIRST, SECOND))
    assert asked(load="ranges", ranges=[str(FIRST), str(SECOND)]) == expected
    assert asked(load="ranges", ranges=[f"  {FIRST} ", "", f"{SECOND}"]) == expected
    assert asked(load="ranges", ranges=[f"{FIRST}, {SECOND},"]) == expected


def test_a_batch_is_named_by_its_id():
    assert asked(load="a batch", batch_id=7) == OneBatch(batch_id=7)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"window_start": START.isoformat(), "window_end": END.isoformat()}, Window(start=START, end=END, replace=True)),
        ({"ranges": [str(FIRST)]}, Ranges(ranges=(FIRST,), replace=True)),
        ({"batch_id": 7}, OneBatch(batch_id=7, replace=True)),
    ],
)  # fmt: skip
def test_replace_reaches_every_target_with_its_reason(given, expected):
    load = {Window: "a window", Ranges: "ranges", OneBatch: "a batch"}[type(expected)]
    found = ingest(by_hand(load=load, replace=True, reason=" prices were wrong ", **given))
    assert (found.request, found.reason) == (expected, "prices were wrong")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, KeptRejects()),
        ({"batch_id": 7}, KeptRejects(batch_id=7)),
        ({"reject_reason": "not a number"}, KeptRejects(reason_like="not a number")),
        ({"batch_id": 7, "reject_reason": "not a number"}, KeptRejects(batch_id=7, reason_like="not a number")),
    ],
)
def test_rejected_records_are_all_or_those_of_a_batch_or_a_reason(given, expected):
    found = ingest(by_hand(load="rejected records", reason="the transform is fixed", **given))
    assert (found.request, found.reason) == (expected, "the transform is fixed")


@pytest.mark.parametrize(("to_batch", "dry_run"), [(7, False), (0, True)])
def test_a_rewind_goes_to_a_batch_or_to_the_beginning(to_batch, dry_run):
    found = ingest(by_hand(load="rewind", to_batch=to_batch, dry_run=dry_run, reason="wrong"))
    assert (found.request, found.reason) == (Rewind(to_batch=to_batch, dry_run=dry_run), "wrong")


def test_a_rewind_needs_a_batch_and_a_reason():
    [batch, reason] = refused(load="rewind")
    assert batch == "`to_batch` is missing: to rewind it must be given"
    assert reason.startswith("`reason` is missing: say why")


def test_a_rewind_to_a_batch_below_zero_is_refused():
    """Airflow's form refuses it too, and the API of another version may not."""
    assert refused(load="rewind", to_batch=-1, reason="wrong") == [
        "`to_batch`: expected a batch, or 0 for the beginning, found -1"
    ]


def test_a_reason_may_stand_with_anything():
    assert ingest(by_hand(reason="why not")).reason == "why not"


@pytest.mark.parametrize("run_type", ["manual", "asset_triggered", "operator_triggered", "asset_materialization"])
def test_only_scheduled_and_backfill_runs_go_by_an_interval(run_type):
    """For a manual run Airflow's form gives the last complete hour, which no person chose."""
    assert asked(run_type=run_type, interval=HOUR) == NewRecords()


def test_a_run_that_an_asset_starts_has_no_conf():
    found = ingest(Triggered(run_type="asset_triggered", params=EMPTY))
    assert found.request == NewRecords()


def test_a_scheduled_run_goes_on_until_its_interval_ends():
    found = ingest(Triggered(run_type="scheduled", params=EMPTY, interval=HOUR))
    assert found.request == NewRecords(until=END, since=START)


@pytest.mark.parametrize("conf", [{}, {"reason": "outage"}, {"replace": True, "reason": "prices were wrong"}])
def test_a_backfill_run_loads_the_window_of_its_interval(conf):
    found = ingest(Triggered(run_type="backfill", params=EMPTY | conf, conf_keys=conf, interval=HOUR))
    assert found.request == Window(start=START, end=END, replace=conf.get("replace", False))
    assert found.reason == conf.get("reason")


def test_airflows_form_for_backfills_may_send_the_fields_that_were_left_empty():
    assert asked(run_type="backfill", interval=HOUR) == Window(start=START, end=END)


# Refusals ----------------------------------------------------------------------------------------------------------------------


def test_a_key_that_no_field_has_is_named_with_those_there_are():
    triggered = Triggered(run_type="manual", params=EMPTY | {"untill": "x"}, conf_keys=["untill", "lod"])
    known = ", ".join((*INGEST_FIELDS, *REWIND_FIELDS))
    assert mistakes(ingest, triggered) == [f"unknown conf lod, untill; known: {known}"]


@pytest.mark.parametrize(
    ("field", "value", "uses"),
    [
        ("until", END.isoformat(), {Load.NEW_RECORDS}),
        ("window_start", START.isoformat(), {Load.WINDOW}),
        ("window_end", END.isoformat(), {Load.WINDOW}),
        ("ranges", [str(FIRST)], {Load.RANGES}),
        ("batch_id", 7, {Load.BATCH, Load.REJECTS}),
        ("reject_reason", "not a number", {Load.REJECTS}),
        ("replace", True, {Load.WINDOW, Load.RANGES, Load.BATCH}),
        ("to_batch", 7, {Load.REWIND}),
        ("to_batch", 0, {Load.REWIND}),
        ("dry_run", True, {Load.REWIND}),
    ],
)
@pytest.mark.parametrize("load", Load)
def test_a_value_unused_by_the_choice_is_refused_and_the_right_choices_are_named(load, field, value, uses):
    complete = {
        Load.WINDOW: {"window_start": START.isoformat(), "window_end": END.isoformat()},
        Load.RANGES: {"ranges": [str(FIRST)]},
        Load.BATCH: {"batch_id": 7},
        Load.REWIND: {"to_batch": 7},
    }
    given = {"load": load, "reason": "because", **complete.get(load, {}), field: value}
    if load in uses:
        ingest(by_hand(**given))
    else:
        [mistake] = refused(**given)
        assert mistake.startswith(f"`{field}` is not used to {load.act}: leave it empty")
        assert {other for other in Load if f"`{other}`" in mistake} == uses


@pytest.mark.parametrize(
    ("load", "missing"),
    [
        (Load.WINDOW, ["window_start", "window_end"]),
        (Load.RANGES, ["ranges"]),
        (Load.BATCH, ["batch_id"]),
    ],
)
def test_what_a_choice_needs_is_named_when_it_is_missing(load, missing):
    assert refused(load=load) == [f"`{field}` is missing: to load {load} it must be given" for field in missing]


def test_half_a_window_is_not_one():
    assert refused(load="a window", window_end=END.isoformat()) == [
        "`window_start` is missing: to load a window it must be given"
    ]


@pytest.mark.parametrize("blank", [None, "", "  "])
@pytest.mark.parametrize("given", [{"load": "a batch", "batch_id": 7, "replace": True}, {"load": "rejected records"}])
def test_who_changes_the_output_later_says_why(given, blank):
    [mistake] = refused(**given, reason=blank)
    assert mistake.startswith("`reason` is missing: say why")


@pytest.mark.parametrize("field", ["until", "window_start", "window_end"])
def test_a_moment_without_a_zone_is_refused_with_one_that_has_it(field):
    load = "new records" if field == "until" else "a window"
    other = {"window_start": START.isoformat(), "window_end": END.isoformat()} if load == "a window" else {}
    [mistake] = refused(load=load, **other | {field: "2026-11-21T13:30:00"})
    assert mistake == (
        f"`{field}` has no zone: 2026-11-21T13:30:00; say which moment it means, such as 2026-11-21T13:30:00Z for UTC"
    )


def test_what_is_no_moment_is_shown_with_one_that_is():
    assert refused(until="tomorrow") == ["`until`: expected a moment like 2026-11-21T14:00:00Z, found `tomorrow`"]
    [mistake] = refused(until="2026-11-21")
    assert mistake.endswith("such as 2026-11-21T00:00:00Z for UTC")


IN_VIENNA = timezone(timedelta(hours=1))


@pytest.mark.parametrize("end", [START, START - timedelta(seconds=1), datetime(2026, 11, 21, 13, 30, tzinfo=IN_VIENNA)])
def test_a_window_ends_after_it_starts(end):
    [mistake] = refused(load="a window", window_start=START.isoformat(), window_end=end.isoformat())
    assert mistake == f"`window_end` must be later than `window_start`, found {START} and {end}"


@pytest.mark.parametrize("line", ["ads/3", "ads/3 [100, 200]", "ads/3 [200, 100)", "ads/3 [-1, 5)", "ads 3 100 200"])
def test_a_line_that_is_no_range_is_quoted(line):
    [mistake] = refused(load="ranges", ranges=[str(SECOND), line])
    assert mistake.startswith("`ranges`: ")
    assert f"`{line}`" in mistake


def test_ranges_that_overlap_are_named():
    [mistake] = refused(load="ranges", ranges=["ads/3 [100, 200)", "ads/4 [100, 200)", "ads/3 [199, 300)"])
    assert mistake == "`ranges`: expected ranges that do not overlap, found ads/3 [100, 200) and ads/3 [199, 300)"


def test_every_mistake_is_named_at_once():
    triggered = by_hand(
        load="a window",
        window_start="2026-11-21T13:00:00",
        window_end="soon",
        replace=True,
        until=END.isoformat(),
        ranges=[str(FIRST)],
        typo=1,
    )
    beginnings = [
        "unknown conf typo",
        "`until` is not used",
        "`ranges` is not used",
        "`reason` is missing",
        "`window_start` has no zone",
        "`window_end`: expected a moment",
    ]
    found = mistakes(ingest, triggered)
    assert [beginning for beginning in beginnings for line in found if line.startswith(beginning)] == beginnings
    assert len(found) == len(beginnings)


def test_all_bad_lines_are_named_at_once():
    assert len(refused(load="ranges", ranges=["one", "two", str(FIRST)])) == 2


@pytest.mark.parametrize("field", ["until", "window_start", "ranges", "batch_id", "reject_reason", "load"])
@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_a_run_of_an_interval_takes_no_target_from_a_form(run_type, field):
    value = {"ranges": [str(FIRST)], "batch_id": 7, "load": "a batch"}.get(field, END.isoformat())
    [mistake] = refused(run_type=run_type, interval=HOUR, **{field: value})
    assert mistake == f"`{field}` is for runs that are triggered by hand: a {run_type} run uses its data interval"


def test_a_backfill_that_replaces_says_why():
    [mistake] = refused(run_type="backfill", interval=HOUR, replace=True)
    assert mistake.startswith("`reason` is missing")


def test_a_refusal_says_what_to_do_next():
    with pytest.raises(FatalError, match=r"(?s)Next: correct it and trigger a new run.*docs/runbook.md#trigger-form"):
        ingest(by_hand(until="tomorrow"))
