"""Write pipelines for the tests of what their author uses."""

from pathlib import Path
from textwrap import dedent

COORDINATES = "kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint"
KEY = "PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)"
DECLARATION = """
    description: Orders, as they are placed
    source:
      bootstrap_servers: nowhere:9092
      topics: [orders]
      value:
        format: json
        columns: {order_id: bigint, amount: "decimal(12,2)"}
    sink:
      table: shop.orders
"""
TABLE = f"CREATE TABLE shop.orders (order_id bigint NOT NULL, amount numeric(12, 2), {COORDINATES}, {KEY});"


def author(folder: Path, *, declaration: str = DECLARATION, target: str = TABLE, transform: str | None = None) -> Path:
    """Write the files of a pipeline. Return its folder."""
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(dedent(declaration))
    (folder / "target.sql").write_text(target)
    if transform is not None:
        (folder / "transform.py").write_text(dedent(transform))
    return folder
