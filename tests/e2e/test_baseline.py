"""The DAG `ads_baseline` in Airflow: a run that is cleared has the same hour, and makes no second version of it."""

from tideline.settings import PROJECT

NAME = "ads_baseline"
CONVERSIONS = PROJECT / "include" / "pipelines" / "conversions" / "target.sql"


def test_a_run_computes_its_hour_once_also_when_it_is_cleared(system, loaded):
    system.prepare(CONVERSIONS.read_text())
    system.prepare(
        "INSERT INTO ads.conversions (offer_id, converted_at, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch) "
        "SELECT offer_id, shown_at, kafka_topic_id, kafka_partition, kafka_offset, 1 FROM ads.impressions WHERE kafka_offset % 10 = 0"
    )
    run_id = system.scheduled(NAME)
    system.succeed(NAME, run_id)
    said = system.airflow.returned(NAME, run_id, "compute")
    # Not the newest version: where the schedule's next moment has passed meanwhile, a second run has made it.
    version = int(said.split()[1])
    assert said.startswith(f"version {version} of "), said
    [(n_impressions, n_conversions)] = system.rows(
        "SELECT sum(impressions)::int, sum(conversions)::int FROM ads.baseline WHERE version = %s", version
    )
    assert n_impressions > n_conversions > 0
    before = system.rows("SELECT * FROM ads.baseline WHERE version = %s ORDER BY offer_id", version)
    system.airflow.clear(NAME, run_id)
    system.succeed(NAME, run_id)
    assert system.airflow.returned(NAME, run_id, "compute") == f"{' '.join(said.split()[:4]).rstrip(':')} is there"
    assert system.rows("SELECT * FROM ads.baseline WHERE version = %s ORDER BY offer_id", version) == before
