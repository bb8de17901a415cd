"""A part of the tour: the pipeline `entity_cache` keeps the offers as they are now, and a replay changes nothing."""

from tideline_demo import offers
from tideline_demo.stage import DemoStage
from tideline_stack.supervisor import show_step

DAG = "entity_cache"
CHANGES = 20_000


def play(stage: DemoStage) -> list[str]:
    """Load changes of offers and their tombstones, compare the table with them, and load them again.

    Returns:
        One line for each difference.
    """
    print("  The topic is compacted. The pipeline begins at its end, so the first run finds nothing to load.")
    offers.create_topic(stage.bootstrap)
    stage.load(DAG)
    with show_step(f"{CHANGES:,} changes of {offers.OFFERS:,} offers into Kafka"):
        sent = offers.produce(stage.bootstrap, CHANGES, seed=CHANGES)
    run_id = stage.load(DAG)
    before = stage.look("list_offer_cache")
    cache = {row["offer_id"]: ((row["kafka_partition"], row["kafka_offset"]), row["bid_micros"]) for row in before}
    problems = sent.compare(cache)
    print(f"  ads.offer_cache holds {len(before):,} offers; {len(sent.deleted):,} were deleted by tombstones.")
    for batch in stage.look("list_batches_of_run", pipeline=DAG, run_id=run_id):
        number = str(batch["batch_id"])
        stage.follow(DAG, stage.tideline("replay", DAG, "--batch", number, "--reason", "the tour loads it again"))
    if stage.look("list_offer_cache") != before:
        problems.append("rows were changed by a replay")
    stage.look_at(stage.page("pipelines", DAG))
    return [f"ads.offer_cache: {problem}" for problem in problems]
