"""Turn each statement, COMMIT and COPY of this process into a step that waits at the gate. Installed only in
processes of the tests."""

import os
import re
import socket
from types import SimpleNamespace
from typing import Any

import adbc_driver_manager.dbapi
import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INTRANS, connection
from psycopg2.extras import DictCursor
from psycopg2.sql import Composable

from faults.memory.registry import NO_STEPS
from faults.processes.gate import Gate, Kind, Step
from faults.processes.statements import name_of
from tideline.flow import writing

_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\b")
_ASIDE = re.compile(r"--.*|FOR (NO KEY )?UPDATE")


def install(gate: Gate, target: str) -> None:
    """Make this process wait at the gate from now on; `target` is the text of its pipeline's target.sql."""
    _watch_sessions(gate, target)
    _watch_copies(gate)
    waiting = SimpleNamespace(sleep=lambda _: gate.reach(Step(name="wait", kind=Kind.WAIT)))
    writing.time = waiting  # type: ignore[attr-defined, assignment]  # in place of the module that it imports


def _watch_copies(gate: Gate) -> None:
    ingest = adbc_driver_manager.dbapi.Cursor.adbc_ingest

    def copy(cursor: Any, table: str, *arguments: Any, **options: Any) -> int:
        gate.reach(Step(name="task: COPY", kind=Kind.COPY, table=table))
        return int(ingest(cursor, table, *arguments, **options))

    adbc_driver_manager.dbapi.Cursor.adbc_ingest = copy


def _watch_sessions(gate: Gate, target: str) -> None:
    connect = psycopg2.connect

    class Session(connection):
        """A session that knows its actor and its last statement, which names the COMMIT."""

        actor = ""
        last = ""
        wrote = False

        def sends(self, text: str, bound: Any) -> bool:
            """Note a statement; return whether it is a step."""
            name = name_of(text, target)
            is_step = name not in NO_STEPS
            self.last = name if is_step else self.last
            self.wrote = self.wrote or bool(_WRITES.search(_ASIDE.sub("", text)))
            if self.last == "set_actor":
                self.actor = bound["actor"]
            return is_step

        def step(self, name: str, kind: Kind) -> Step:
            of_task = self.actor == "spark task"
            return Step(
                name=f"task: {name}" if of_task else name,
                kind=kind,
                backend=self.info.backend_pid,
                port=_port(self),
                inside=self.info.transaction_status != TRANSACTION_STATUS_IDLE,
                writes=self.wrote,
            )

        def commit(self) -> None:
            if gate.watches and self.info.transaction_status == TRANSACTION_STATUS_INTRANS:
                gate.reach(self.step(f"COMMIT after {self.last}", Kind.COMMIT))
            self.wrote = False
            super().commit()

        def rollback(self) -> None:
            self.wrote = False
            super().rollback()

    class Statement(DictCursor):
        """A cursor that waits before each statement."""

        connection: Session

        def execute(self, query: str | bytes | Composable, vars: Any = None) -> None:  # noqa: A002 - psycopg2's own name
            session = self.connection
            if gate.watches and session.sends(_text(query, session), vars):
                gate.reach(session.step(session.last, Kind.STATEMENT))
            super().execute(query, vars)  # type: ignore[no-untyped-call]  # its stub has no types

    def watched(*arguments: Any, **options: Any) -> connection:
        session: Session = connect(
            *arguments, **{**options, "connection_factory": Session, "cursor_factory": Statement}
        )
        return session

    psycopg2.connect = watched  # type: ignore[assignment]  # an overloaded function; it takes any arguments


def _text(query: str | bytes | Composable, session: connection) -> str:
    if isinstance(query, Composable):
        return query.as_string(session)
    return query.decode() if isinstance(query, bytes) else query


def _port(session: connection) -> int:
    """Return the local port of the connection, by which the proxy knows it."""
    with socket.socket(fileno=os.dup(session.fileno())) as local:
        return int(local.getsockname()[1])
