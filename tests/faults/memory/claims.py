"""Claims of tables: which pipeline writes which table."""

import re

from faults.memory import events
from faults.memory.batches import OPEN
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import check, dangling, law
from faults.memory.registry import Rows, verb
from faults.memory.rows import OutputTable


@verb
def claim_table(db: MemoryDatabase, *, pipeline: str, table: str, shared: bool) -> Rows:
    others = [
        {"pipeline": other.pipeline, "shared": other.shared}
        for other in db.tables.values()
        if other.table_name == table and other.pipeline != pipeline and not (other.shared and shared)
    ]
    new = OutputTable(pipeline, table, shared)
    if not others and db.tables.get(pipeline) != new:
        if not re.fullmatch(r"[^.]+\.[^.]+", table):
            raise check("output_table", "output_table_table_name_check", str(new))
        db.put(db.tables, pipeline, new)
        events.insert(db, "claim table", pipeline, detail={"table": table, "shared": shared})
        if pipeline not in db.pipelines:
            raise dangling("output_table", "output_table_pipeline_fkey")
    return sorted(others, key=lambda row: row["pipeline"])


@verb
def free_table(db: MemoryDatabase, *, pipeline: str) -> Rows:
    if pipeline not in db.tables:
        return []
    name = db.tables[pipeline].table_name
    if any(batch.pipeline == pipeline and batch.state in OPEN for batch in db.batches.values()):
        raise law(f"table {name} of pipeline {pipeline} is not free: batches of it are open")
    db.remove(db.tables, pipeline)
    events.insert(db, "free table", pipeline, detail={"table": name})
    return [{"table_name": name}]
