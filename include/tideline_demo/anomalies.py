"""A part of the tour: a job counts a baseline, and the pipeline `offer_anomalies` flags an offer that stops and one that converts too much."""

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.errorcodes import UNDEFINED_TABLE

from tideline.ledger.database_errors import RefusedStatementError
from tideline_demo import impressions, loads, offer_events
from tideline_demo.offer_events import BOOSTED, RATE, STOPPED
from tideline_demo.stage import TIDELINE, DemoStage
from tideline_stack.supervisor import show_step

DAG, CONVERSIONS, BASELINE = "offer_anomalies", "conversions", "ads_baseline"
_HOUR = timedelta(hours=1)


def play(stage: DemoStage) -> list[str]:
    """Load conversions, count the baseline, and compare the offers that are flagged with those whose rate was changed.

    Returns:
        One line for each difference.
    """
    loads.bring(stage)
    offer_events.create_topic(stage.bootstrap)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    past = offer_events.history(_missing(stage, hour), hour=hour)
    with show_step(f"{len(past):,} conversions of past hours into Kafka"):
        offer_events.produce(stage.bootstrap, past)
    stage.load(CONVERSIONS)
    _level(stage, hour)
    stage.load(BASELINE)
    [version] = stage.look("find_baseline")
    print(f"  ads.baseline: version {version['version']} with {version['n_offers']:,} offers.")
    before = stage.look("find_progress", pipeline=DAG)[0]
    events, seen = offer_events.an_hour(_begin(before["max_time"], hour))
    with show_step(f"{len(events):,} events of one hour: offer {STOPPED} stops, offer {BOOSTED} converts too much"):
        offer_events.produce(stage.bootstrap, events)
    stage.load(DAG)
    problems = _compare(stage, before["newest_batch"], seen, version["version"])
    problems += _skipped(stage, before, len(past) + len(events))
    stage.look_at(f"{TIDELINE} coverage {DAG}   (which offsets were skipped, and why)")
    return problems


def _missing(stage: DemoStage, hour: datetime) -> dict[int, int]:
    """Return how many conversions each offer lacks, so that it has one for ten impressions, also when the demo runs again."""
    there = _converted(stage, hour)
    shown = stage.look("count_shown", hour=hour)
    return {row["offer_id"]: max(0, round(RATE * row["n"]) - there.get(row["offer_id"], 0)) for row in shown}


def _converted(stage: DemoStage, hour: datetime) -> dict[int, int]:
    """Return how many conversions each offer has."""
    try:
        return {row["offer_id"]: row["n"] for row in stage.look("count_converted", hour=hour)}
    except RefusedStatementError as error:
        if error.sqlstate != UNDEFINED_TABLE:  # the first load creates it
            raise
        return {}


def _level(stage: DemoStage, hour: datetime) -> None:
    """Send and load the impressions that offers lack for the conversions of a tour that was played before.

    Its hour has impressions among the events of offers only. Without them among the ad impressions too, the next baseline would expect more
    conversions of each offer than come, and all would be flagged.
    """
    shown = {row["offer_id"]: row["n"] for row in stage.look("count_shown", hour=hour)}
    missing = {offer_id: round(n / RATE) - shown.get(offer_id, 0) for offer_id, n in _converted(stage, hour).items()}
    # Rounding leaves up to half a conversion, five impressions.
    offers = [offer_id for offer_id, n in missing.items() if n > 1 / RATE for _ in range(n)]
    if offers:
        with show_step(f"{len(offers):,} impressions for the conversions of an earlier tour into Kafka"):
            impressions.produce(stage.bootstrap, len(offers), seed=len(offers), since=hour - 2 * _HOUR, offers=offers)
        stage.load(loads.DAG)


def _begin(newest: datetime | None, hour: datetime) -> datetime:
    """Return a full hour after all events that were folded: older ones would be late."""
    begin = hour - 2 * _HOUR
    return begin if newest is None else max(begin, newest.replace(minute=0, second=0, microsecond=0) + _HOUR)


def _compare(stage: DemoStage, after: int, seen: dict[int, int], version: int) -> list[str]:
    flagged = stage.look("list_anomalies", after=after)
    for row in flagged:
        print(
            f"  offer {row['offer_id']}: {row['flag']}. {row['seen']} conversions of {row['impressions']} impressions, expected "
            f"{row['expected']:.1f}; score {row['score']:.1f}, version {row['model_version']}."
        )
    expected = {(STOPPED, "too few", seen[STOPPED], version), (BOOSTED, "too many", seen[BOOSTED], version)}
    found = {(row["offer_id"], row["flag"], row["seen"], row["model_version"]) for row in flagged}
    return [f"ads.offer_anomalies: expected {one}" for one in sorted(expected - found)] + [
        f"ads.offer_anomalies: did not expect {one}" for one in sorted(found - expected)
    ]


def _skipped(stage: DemoStage, before: Any, n_sent: int) -> list[str]:
    """Compare what was sent with what was loaded and what was skipped."""
    after = stage.look("find_progress", pipeline=DAG)[0]
    n_loaded, n_skipped = (after[name] - before[name] for name in ("n_loaded", "n_skipped"))
    print(
        f"  Only the newest events: {n_loaded:,} loaded, and {n_skipped:,} skipped, which the ledger records. Windows began anew after the gap."
    )
    if n_loaded + n_skipped != n_sent or not n_skipped:
        return [f"{DAG}: {n_sent:,} events were sent, {n_loaded:,} loaded and {n_skipped:,} skipped"]
    return []
