"""Turn each effect of this process on a Delta table into a step that waits at the gate. Installed only in processes of the
tests.

Nothing is replaced but the doors of the library: what opens a table, what puts an entry of its log, and what reads,
lists, writes and removes files. The library starts threads at its first use, so a process that was forked before it was
used may use it.
"""

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deltalake import DeltaTable, Schema, table
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

import tideline.sinks.delta.sink  # noqa: F401 - for all processes forked from this one
from faults.processes.gate import Entry, Gate, Kind, Put, Step

_OF_A_TASK = re.compile(r"\d+-\d+\.parquet")


def install(gate: Gate) -> None:
    """Make this process wait at the gate from now on."""
    doors = _Doors(gate)
    _watch_log(doors)
    _watch_files(doors)


class _Doors:
    """What this process may do. Heartbeats do nothing to a table, so nothing here is called by another thread."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._away = False

    def reach(self, name: str) -> None:
        """Wait before a step.

        Raises:
            OSError: Storage does not answer.
        """
        if self._gate.watches:
            self._answers()
            self._gate.reach(Step(name=name, kind=Kind.LAKE))

    def put(self, name: str, entry: Entry | None, send: Callable[[], None]) -> None:
        """Wait before an entry is sent, and do with it what the conductor says.

        Raises:
            OSError: Storage does not answer.
        """
        if not self._gate.watches:
            return send()
        self._answers()
        outcome = self._gate.put(Put(Step(name=name, kind=Kind.PUT, writes=True), entry))
        if outcome is None:
            return send()
        if outcome.arrives:
            with suppress(CommitFailedError, DeltaError):  # refused, which its sender does not learn either
                send()
        if outcome.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        self._away = outcome.away
        raise _no_answer()

    def _answers(self) -> None:
        if self._away:
            raise _no_answer()


def _no_answer() -> OSError:
    return OSError("Generic LocalFileSystem error: storage does not answer")


def _watch_log(doors: _Doors) -> None:
    opened, history, vacuum = DeltaTable.__init__, DeltaTable.history, DeltaTable.vacuum
    committed, created = DeltaTable.create_write_transaction, vars(table)["_create_deltalake"]

    def init(self: DeltaTable, *arguments: Any, **options: Any) -> None:
        doors.reach("lake: open")
        opened(self, *arguments, **options)

    def read_history(self: DeltaTable, *arguments: Any, **options: Any) -> Any:
        doors.reach("lake: read the history")
        return history(self, *arguments, **options)

    def remove_old(self: DeltaTable, *arguments: Any, **options: Any) -> Any:
        doors.reach("lake: vacuum")
        return vacuum(self, *arguments, **options)

    def create(*arguments: Any) -> None:
        doors.put("lake: CREATE", None, lambda: created(*arguments))

    def commit(self: DeltaTable, actions: list[Any], **options: Any) -> None:
        entry = _entry(self, actions, **options)
        doors.put(f"lake: COMMIT of {_named(entry)}", entry, lambda: committed(self, actions, **options))

    for owner, name, door in (
        (DeltaTable, "__init__", init),
        (DeltaTable, "history", read_history),
        (DeltaTable, "vacuum", remove_old),
        (DeltaTable, "create_write_transaction", commit),
        (table, "_create_deltalake", create),
    ):
        setattr(owner, name, door)


def _entry(opened: DeltaTable, actions: list[Any], **options: Any) -> Entry:
    """Return what the library is about to send, as values that can be sent from another process."""
    added = [one for one in actions if isinstance(one, AddAction)]
    names = ("path", "data_change", "deletion_timestamp", "size", "partition_values")
    columns, properties = options["schema"], options["commit_properties"]
    return Entry(
        uri=opened.table_uri,
        behind=opened.version(),
        added=added,
        removed=[{name: getattr(one, name) for name in names} for one in actions if one not in added],
        mode=options["mode"],
        schema=(columns if isinstance(columns, Schema) else Schema.from_arrow(columns)).to_json(),
        partition_by=options["partition_by"],
        transactions=[(one.app_id, one.version) for one in properties.app_transactions or ()],
        metadata=properties.custom_metadata,
    )


def _named(entry: Entry) -> str:
    if entry.has_rows:
        return "rows"
    if entry.transactions:
        return "a marker"
    return "a merge" if entry.added else "columns"


def _watch_files(doors: _Doors) -> None:
    handler = DeltaStorageHandler

    def watched(name: str, step: Callable[[Any], str]) -> None:
        carried_out = getattr(handler, name)

        def door(self: DeltaStorageHandler, what: Any, *arguments: Any) -> Any:
            doors.reach(step(what))
            return carried_out(self, what, *arguments)

        setattr(handler, name, door)

    watched("get_file_info_selector", lambda _: "lake: list files")
    watched("open_input_file", lambda _: "lake: read a file")
    watched("delete_file", lambda _: "lake: remove a file")
    watched("open_output_stream", lambda path: f"{_writer(path)}: write a file")


def _writer(path: str) -> str:
    return "task" if _OF_A_TASK.fullmatch(path.rpartition("/")[2]) else "lake"
