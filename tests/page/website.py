"""Airflow's API server with the page, over a real ledger and a real broker, and pipelines in every condition that the page tells apart."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import records
from given_ledger import ledgers, states
from given_topics import topics
from secret_scan import Scan, look_for
from servers.cutting_proxy import CuttingProxy
from tideline import flow
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.deployment import logins, secret
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords
from tideline.domain.schemas import Schema
from tideline.errors import NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.ledger import attempts, schemas
from tideline.ledger.connection import Ledger
from tideline.ledger.fields import CountedField, count_fields
from tideline.ledger.reservations import Run
from tideline.settings import PROJECT, WRITER_URL
from tideline_stack.airflow_processes import AirflowOptions, Orchestrator, fernet_key
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres

ROLES = ("viewer", "user", "op", "admin")
_USERS = {role: role for role in ROLES} | {"partner": "op", "guest": "viewer", "stranger": "viewer"}
SCRAPER = "the token of the numbers"
"""No user of Airflow: what Prometheus sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Website:
    """The address, the logins, and what is behind them."""

    url: str
    ledger_url: str = field(repr=False)
    """That of the administrator, for what tests prepare and look at. The page has those of the roles."""
    writer_url: str = field(repr=False)
    """That of the role which owns the output tables."""
    bootstrap: str
    folder: Path
    proxy: CuttingProxy
    """Between the page and the ledger."""
    passwords: Mapping[str, str] = field(repr=False)
    prefix: str = ""
    """Of the names of its topics, which are given without it."""

    def client(self, role: str | None) -> httpx.Client:
        """Return a client that is logged in with a role; None for no login. It fails if an answer holds a secret."""
        hooks = {"response": [_without_secrets]}
        made = httpx.Client(base_url=self.url, timeout=60, trust_env=False, event_hooks=hooks)
        if role:
            made.headers["Authorization"] = f"Bearer {self.token(role)}"
        return made

    def token(self, role: str) -> str:
        if role == SCRAPER:
            return self.passwords[role]
        return _logged_in(self.url, role, self.passwords[role])

    def await_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read the DAG files."""
        with self.client("admin") as client:
            topics.until(lambda: client.get(f"/api/v2/dags/{dag_id}").is_success)

    @contextmanager
    def ledger(self, actor: str = "test") -> Iterator[Ledger]:
        with Ledger(self.ledger_url, actor=actor) as session:
            yield session

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.ledger() as session, session.transaction(), session.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table of the ledger."""
        tables = self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'tideline' ORDER BY 1")
        return {table: self.rows(f"SELECT t::text FROM tideline.{table} t ORDER BY 1") for (table,) in tables}

    def pipeline(self, name: str) -> Pipeline:
        return pipelines.load(self.folder / name)

    def declare(
        self,
        name: str,
        topic: str,
        *,
        value: Mapping[str, object] | None = None,
        **more: Any,
    ) -> None:
        """Declare a pipeline, by default of raw bytes."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        source = {
            "bootstrap_servers": self.bootstrap,
            "topics": [self.prefix + topic],
            "start": "earliest",
            "value": value or {"format": "bytes"},
        }
        declaration = {"description": f"The {name}", "source": source, "sink": {"table": f"page.{name}"}, **more}
        (folder / "pipeline.yaml").write_text(json.dumps(declaration))
        (folder / "target.sql").write_text("-- never run: these tests write no output\n")

    def lose_broker(self, name: str) -> None:
        """Change a declaration so that none answers at the address of its brokers."""
        path = self.folder / name / "pipeline.yaml"
        declaration = json.loads(path.read_text())
        declaration["source"]["bootstrap_servers"] = "127.0.0.1:1"
        path.write_text(json.dumps(declaration))

    def forget_answers(self, *names: str) -> None:
        """Make the page ask the brokers of pipelines anew, by an act that is refused: it changes nothing."""
        with self.client("op") as client:
            for name in names:
                form = {"batch": "none", "reason": "to be asked anew"}
                answer = client.post(
                    f"/tideline/pipelines/{name}/decisions/retry", data=form, headers={"X-Tideline": "page"}
                )
                assert "expected a number" in answer.text

    @contextmanager
    def without_ledger(self) -> Iterator[None]:
        """Let the page not reach its ledger inside the block."""
        self.proxy.refuse()
        try:
            yield
        finally:
            self.proxy.accept_again()

    def fill(self, topic: str, count: int, *, partitions: int = 1) -> None:
        records.create(self.bootstrap, name=self.prefix + topic, partitions=partitions)
        self.add(topic, count, partitions=partitions)

    def add(self, topic: str, count: int, *, partitions: int = 1) -> None:
        records.produce(self.bootstrap, self.prefix + topic, [b"x"] * count, partitions=partitions)

    def plan(self, name: str, run_id: str) -> list[int]:
        with self.ledger() as session:
            run = Run(dag_id=name, run_id=run_id)
            declared = self.pipeline(name)
            return flow.plan(session, Broker(declared.source), declared, run, NewRecords()).batch_ids

    def load(
        self,
        name: str,
        run_id: str,
        *,
        rejected: int = 0,
        reason: str = "not JSON",
        value: bytes = b"x",
        subject: str | None = None,
    ) -> int:
        """Plan what is new, publish it with so many rejects in the first partition, and advance. Its values may name a schema."""
        (batch_id,) = self.plan(name, run_id)
        with self.ledger() as session:
            attempt = ledgers.claim(session, batch_id)
            ledgers.stage(session, attempt)
            if subject is not None:
                named = {7: Schema(kind="AVRO", text="{}", subjects=(subject,))}
                schemas.keep_schemas(session, attempt.attempt, "default", named)
                schemas.use_schemas(session, attempt.attempt, "value", "default", [*named])
                first = attempt.ranges[0]
                field = CountedField("value", subject, 3, first.stream_id, first.offsets.start)
                count_fields(session, attempt.attempt, "1:0", [field])
            first = attempt.ranges[0]
            offsets = range(first.offsets.start, first.offsets.start + rejected)
            if rejected:
                _reject(session, attempt.attempt, first.stream_id, offsets, reason=reason, value=value)
            written = {piece.stream_id: len(piece.offsets) for piece in attempt.ranges}
            written[first.stream_id] -= rejected
            ledgers.publish(session, attempt, written=written)
            flow.advance(session, name, Run(dag_id=name, run_id=run_id))
        return batch_id

    def fail(self, name: str, run_id: str, problem: str) -> int:
        """Plan what is new, and let its attempt fail."""
        (batch_id,) = self.plan(name, run_id)
        with self.ledger() as session:
            attempt = ledgers.claim(session, batch_id)
            attempts.fail(session, attempt, problem)
        return batch_id

    def stop(self, name: str, topic: str, run_id: str) -> None:
        """Delete records that were not read, so that the next plan stops the stream."""
        self.add(topic, 20)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (end,) = (
            facts.end
            for found in Broker(self.pipeline(name).source).topic_facts()
            for facts in found.partitions
            if facts.partition == 0
        )
        place = TopicPartition(self.prefix + topic, 0, end - 5)
        admin.delete_records([place])[place].result()
        self._stopped(name, run_id)

    def recreate(self, name: str, topic: str, run_id: str) -> None:
        """Create a topic again, so that the next plan stops its stream."""
        topics.recreate(AdminClient({"bootstrap.servers": self.bootstrap}), self.prefix + topic)
        self.add(topic, 10)
        self._stopped(name, run_id)

    def grow(self, name: str, topic: str, run_id: str) -> None:
        """Add a partition to a topic, so that the next plan begins it as a stopped stream."""
        topics.grown(AdminClient({"bootstrap.servers": self.bootstrap}), self.prefix + topic, 2)
        self._stopped(name, run_id)

    def _stopped(self, name: str, run_id: str) -> None:
        try:
            self.plan(name, run_id)
        except NeedsOperatorError:
            return
        raise AssertionError(f"{name} goes on, and should have stopped")

    def fold(self, name: str, run_id: str, *clicks: int) -> int:
        """Plan what is new, and fold it into the state of one key, as a job does it."""
        (batch_id,) = self.plan(name, run_id)
        with self.ledger() as session:
            ((stream_id,),) = self.rows("SELECT stream_id FROM tideline.stream WHERE pipeline = %s", name)
            first = self.rows("SELECT lower(offsets) FROM tideline.batch_range WHERE batch_id = %s", batch_id)[0][0]
            rows = [
                (1, f'["user {user}"]', stream_id, {"clicks": n}, None, first + user) for user, n in enumerate(clicks)
            ]
            states.folded(session, batch_id, rows)
            flow.advance(session, name, Run(dag_id=name, run_id=run_id))
        return batch_id

    def skip(self, name: str, topic: str, start: int, end: int, *, reason: str, actor: str) -> None:
        declared = self.pipeline(name)
        piece = NamedRange(self.prefix + topic, 0, OffsetRange(start, end))
        with self.ledger(actor) as session:
            flow.skip(session, Broker(declared.source), declared, piece, reason=reason)


@cache
def _logged_in(url: str, username: str, password: str) -> str:
    """Return the token of a user, which is valid for hours. Each login takes time of the server, and would be one for each window."""
    asked = {"username": username, "password": password}
    answer = httpx.post(f"{url}/auth/token", json=asked, timeout=60, trust_env=False)
    answer.raise_for_status()
    return str(answer.json()["access_token"])


def _without_secrets(answer: httpx.Response) -> None:
    assert not Scan().finds(answer.read()), f"{answer.url} shows a secret"


def _reject(session: Ledger, attempt: UUID, stream_id: int, offsets: range, *, reason: str, value: bytes) -> None:
    many = len(offsets)
    with session.transaction():
        session.run(
            "stage_rejects",
            attempt=attempt,
            stream_ids=[stream_id] * many,
            offsets=list(offsets),
            steps=["decode"] * many,
            reasons=[reason] * many,
            values=[value] * many,
            **{name: [None] * many for name in ("timestamps_ms", "keys", "headers")},
        )


@contextmanager
def running(
    folder: Path,
    postgres: Postgres,
    broker: LocalBroker,
    *,
    name: str = "page",
    prefix: str = "",
    fill: Callable[["Website"], None] | None = None,
) -> Iterator[Website]:
    """Start Airflow's API server and DAG processor over a new ledger, with its roles. No scheduler: no run needs to go on.

    Args:
        folder: The folder of Airflow and of the declared pipelines.
        postgres: The server of the ledger and of Airflow's own database.
        broker: The broker of the pipelines.
        name: The ledger's database.
        prefix: Of the names of topics, which other websites on the same broker have as well.
        fill: Declares pipelines and gives them a history; None for an empty page.
    """
    for database in (name, f"{name}_airflow"):
        postgres.ensure_database(database)
    look_for(fernet_key(folder / "airflow"))
    # The page never has the URL of the administrator. Roles are those of the whole server, which has other websites.
    kept = partial(logins.kept, folder / "roles")
    urls = logins.of_ledger(postgres.url(name), kept, prefix=f"{name}_")
    proxy = CuttingProxy(postgres.url(name))
    proxied = {role: url.replace(f":{postgres.port}/", f":{proxy.port}/") for role, url in urls.items()}
    declared = folder / "pipelines"
    declared.mkdir()
    plugins = shutil.copytree(PROJECT / "plugins", folder / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("per_dag_rights.py"), plugins)
    users = ",".join(f"{name}:{role}" for name, role in _USERS.items())
    passwords = {name: secret.marked(f"-{name}-") for name in (*_USERS, SCRAPER)}
    orchestrator = Orchestrator(
        folder / "airflow",
        metadata_url=logins.of_airflow(postgres.url(f"{name}_airflow"), kept, f"{name}_airflow"),
        options=AirflowOptions(
            dags=PROJECT / "dags",
            plugins=plugins,
            settings={
                "AIRFLOW__CORE__AUTH_MANAGER": "per_dag_rights.PerDagRights",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
                # All pipelines are declared before Airflow starts, and each parsing is a process that imports everything.
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "86400",
            },
        ),
        environment={**proxied, "TIDELINE_PIPELINES": str(declared)} | {"TIDELINE_METRICS_TOKEN": passwords[SCRAPER]},
    )
    site = Website(
        url=orchestrator.base_url,
        ledger_url=postgres.url(name),
        writer_url=urls[WRITER_URL],
        bootstrap=broker.bootstrap,
        folder=declared,
        proxy=proxy,
        prefix=prefix,
        passwords=passwords,
    )
    if fill:
        fill(site)
    orchestrator.migrate()
    secret.write(folder / "airflow" / "passwords.json", json.dumps(dict(site.passwords)))
    try:
        with proxy:
            orchestrator.start_api()
            site.await_dag("clicks" if fill else "upkeep")
            yield site
        databases = [postgres.url(found) for found in (name, f"{name}_airflow")]
        assert [found for url in databases for found in Scan().database(url)] == []
    finally:
        orchestrator.stop()
