"""Transform of ad impressions: drops robots, converts prices, and adds the advertiser and category of each row's offer."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.transforms import dimension

MICRO = pa.scalar(Decimal("0.000001"), pa.decimal128(7, 6))


def records(batch: pa.Table) -> pa.Table:
    """Record by record: drop robots, turn micros into a price."""
    batch = batch.filter(pc.not_equal(pc.fill_null(batch["device"], ""), "robot"))
    price = pc.multiply(batch["price_micros"].cast(pa.decimal128(19, 0)), MICRO).cast(pa.decimal128(25, 6))
    return batch.append_column("price", price).drop_columns("price_micros")


def frame(df: DataFrame) -> DataFrame:
    """Look each offer up. An unknown offer leaves advertiser and category empty; the impression is kept."""
    offers = dimension(df.sparkSession, "ads.offers")
    return df.join(F.broadcast(offers), "offer_id", "left")
