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


VISITS = """
    description: Visits of users
    source:
      bootstrap_servers: nowhere:9092
      topics: [clicks]
      value:
        format: json
        columns: {user_id: string, at: timestamp, price: "decimal(18,6)"}
    sink:
      table: ads.sessions
    state:
      key: user_id
      columns: {first: timestamp, clicks: bigint}
      event_time: at
      lateness_minutes: 5
"""
SESSIONS = """
    from datetime import timedelta

    from tideline.processors import Processor


    class Sessions(Processor):
        rows = {"user_id": "string", "clicks": "bigint"}

        def on_record(self, key, record, state):
            first, clicks = (record["at"], 0) if state.value is None else (state.value["first"], state.value["clicks"])
            if record["price"] == 13:
                raise ValueError("13 is unlucky")
            state.value = {"first": first, "clicks": clicks + 1}
            state.expires_at = record["at"] + timedelta(minutes=30)

        def on_expiry(self, key, state):
            yield {"user_id": key, "clicks": state.value["clicks"]}


    processor = Sessions()
"""
SESSIONS_TABLE = f"CREATE TABLE ads.sessions (user_id text NOT NULL, clicks bigint NOT NULL, {COORDINATES}, {KEY});"
