"""The counters, timers and gauges that the tasks send by Airflow's own metrics, as a real StatsD server receives them."""

NAME = "impressions"


def test_published_records_are_counted_as_the_ledger_counts_them(system, loaded, packets):
    for count in ("written", "rejected", "filtered"):
        [(expected,)] = system.rows(
            f"SELECT sum(n_{count}) FROM tideline.batch JOIN tideline.batch_range USING (batch_id) WHERE pipeline = %s"
            " AND run_id = %s",
            NAME,
            loaded.run_id,
        )
        assert expected
        found = packets.of(NAME, f"tideline.records.{count}")
        assert sum(one.value for one in found) >= expected
        assert {(one.kind, one.tags["kind"]) for one in found} == {("c", "live")}


def test_batches_are_counted_when_they_are_planned_published_and_advanced(system, loaded, packets):
    for step in ("planned", "published", "advanced"):
        assert packets.of(NAME, f"tideline.batches.{step}")[0].value >= 1


def test_a_published_batch_says_how_long_its_attempt_took(system, loaded, packets):
    first = packets.of(NAME, "tideline.batch.duration")[0]
    assert (first.kind, first.tags["kind"]) == ("ms", "live")
    assert 0 < first.value < 300_000


def test_at_the_end_of_a_run_its_numbers_are_sent(system, loaded, packets):
    head = packets.of(NAME, "tideline.head_offset")[-1]
    assert (head.kind, head.value >= len(loaded.raw)) == ("g", True)
    assert packets.of(NAME, "tideline.lag_records")[-1].value == 0
    assert packets.of(NAME, "tideline.broker_up")[-1].value == 1


def test_each_task_says_how_long_it_took(system, loaded, packets):
    for task in ("plan", "advance", "announce"):
        first = packets.of(NAME, f"tideline.{task}.duration")[0]
        assert (first.kind, first.tags["outcome"]) == ("ms", "success")
        assert 0 < first.value < 300_000
