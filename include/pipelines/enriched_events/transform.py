"""Transform of ad impressions into enriched events: drops robots, and adds the advertiser and category of each event's offer."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.transforms import dimension


def records(batch: pa.Table) -> pa.Table:
    """Record by record: drop robots."""
    return batch.filter(pc.not_equal(pc.fill_null(batch["device"], ""), "robot"))


def frame(df: DataFrame) -> DataFrame:
    """Look each offer up. An unknown offer leaves advertiser and category empty; the event is kept."""
    offers = dimension(df.sparkSession, "ads.offers")
    return df.join(F.broadcast(offers), "offer_id", "left")
