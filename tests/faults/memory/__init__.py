"""The ledger's database and the brokers in memory. The Python of `tideline.flow`, `tideline.ledger` and the Postgres sink runs unchanged over them.

    database = MemoryDatabase(on_step)              # on_step(session, name): before each statement, "commit", "committed", "connect"
    ledger = MemoryLedger(database, actor="ada")    # a session; cheap
    database.pass_time(61)                          # the only clock there is

An exception of `on_step` is raised by the step. A psycopg2.OperationalError loses the connection: at "commit" nothing is kept, at "committed"
everything is, and the session does not know which. Any other exception at "commit" also undoes the transaction. At most one session is in a
transaction: `on_step` may run another session only while `session.in_transaction` is false. `ledger.connection.lose()` cuts off one session
from outside, `database.crash()` all of them. Do not change anything else in the tables directly.

    sink = MemorySink(database, "ads.output", ("id", "name"), item="id")
    staging = sink.create_staging(ledger, attempt)
    n_rows = sink.copy(staging, task, [(stream_id, offset, values), ...])
    record(ledger, attempt, counts=[...], rejects=[...])
    flow.publish(ledger, broker, pipeline, attempt, sink.insert_output(attempt, staging, {task: n_rows}), filtered_by_difference=False)
    sink.drop_staging(ledger, attempt)

With `unique=("name",)` the table refuses the later one of two rows with the same name. Then `publishing.publish(publication,
sink.staged(attempt, staging, {task: n_rows}))` of the Postgres sink finds the records and passes them to the publication's `reject`, as the job does.

    cluster = Cluster(on_step)                      # on_step(broker, question): before each question
    topic = cluster.create("ads", 20, 7)            # so many records in each partition; offset n was written in minute n
    topic.logs[0].append(3); topic.logs[0].delete_before(5); topic.logs[0].cut(15); topic.logs.append(Log(4)); cluster.create("ads", 9)
    broker = MemoryBroker(cluster, pipeline.source)

    violations(found(database, pipeline.name, "ads.output"), truth, quiet=True)

The tests here check that both behave as the real ones do. `mirrored.MirroredDatabase` replaces a `MemoryDatabase`, sends each statement to
Postgres as well, and fails where the two results differ.
"""

from faults.memory.database import MemoryDatabase
from faults.memory.finding import found
from faults.memory.ledger import MemoryLedger
from faults.memory.memory_broker import Cluster, Log, MemoryBroker, Topic, transaction
from faults.memory.sink import MemorySink, record

__all__ = [
    "Cluster",
    "Log",
    "MemoryBroker",
    "MemoryDatabase",
    "MemoryLedger",
    "MemorySink",
    "Topic",
    "found",
    "record",
    "transaction",
]
