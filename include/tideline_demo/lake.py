"""A part of the tour: the pipeline `impressions_lake` loads the same impressions into a Delta table, and a replay changes no row."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from deltalake import DeltaTable

from tideline.declaration import pipelines
from tideline.sinks.delta import delta_log
from tideline_demo import loads
from tideline_demo.stage import TIDELINE, DemoStage

DAG = "impressions_lake"
_PLACE = ["kafka_partition", "kafka_offset", "impression_id", "price"]


def play(stage: DemoStage) -> list[str]:
    """Load impressions, compare the Delta table with ads.impressions, and load a batch again.

    Returns:
        One line for each difference.
    """
    loads.bring(stage)
    stage.load(DAG)
    before, expected = rows(), stage.look("list_output")
    problems = differences(expected)
    print(f"  {_table().table_uri} holds {before.total():,} rows, ads.impressions {len(expected):,}.")
    number = str(stage.look("find_progress", pipeline=DAG)[0]["newest_batch"])
    stage.follow(DAG, stage.tideline("replay", DAG, "--batch", number, "--reason", "the tour loads it again"))
    if rows() != before:
        problems.append("rows were changed by a replay")
    stage.look_at(f"{TIDELINE} batch {number}   (the version of the Delta table that it made, and who replaced it)")
    return [f"{DAG}: {problem}" for problem in problems]


def differences(output: Iterable[Sequence[Any]]) -> list[str]:
    """Compare the Delta table with the rows of ads.impressions. Return a line for each kind of difference."""
    expected = Counter((place, offset, str(impression), price) for place, offset, impression, price in output)
    found = rows()
    missing, more = (expected - found).total(), (found - expected).total()
    problems = [f"{missing:,} rows of ads.impressions are missing"] if missing else []
    return problems + ([f"{more:,} rows are not in ads.impressions, or twice"] if more else [])


def rows() -> Counter[tuple[Any, ...]]:
    """Return partition, offset, impression and price of each row of the Delta table."""
    found = _table().to_pyarrow_dataset().to_table(columns=_PLACE)
    return Counter(zip(*(found.column(name).to_pylist() for name in _PLACE), strict=True))


def _table() -> DeltaTable:
    location = delta_log.of(pipelines.load_named(DAG))
    return DeltaTable(location.uri, storage_options=dict(location.options))
