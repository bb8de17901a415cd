"""One real Postgres, one real Kafka broker and one Spark for all tests; each test has its own database and its own topics."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from given_ledger import ledgers
from given_topics import topics
from loads.loading import Loading
from secret_scan import Scan
from servers import cli_process, shared_servers
from servers.cli_process import NAME, Cli
from servers.tls import ADDRESS, Certificates
from tideline import settings
from tideline.ledger.connection import Ledger
from tideline.spark_jobs.session import session as spark_session
from tideline_stack import ports
from tideline_stack import spark as spark_setup
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres

# Permissions are enforced for the SASL user only: clients of the plain listener may do anything.
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    # TLS: the listener SSL wants a certificate of the client, SASL_SSL a password.
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "listener.name.ssl.ssl.client.auth": "required",
    "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    # Tests produce records of long ago. By default Kafka looks every five minutes for records that are older than a week, and deletes them: a
    # test that met this minute had an empty topic.
    "log.retention.check.interval.ms": "86400000",
    # The cleaner of compacted topics looks for work every two seconds instead of every 15 seconds. It checks every partition: four times a
    # second took a seventh of a processor once there were two thousand partitions.
    "log.cleaner.backoff.ms": "2000",
    # Transactions that take too long are looked for twice a second instead of every ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


# Each test creates and drops a database of 300 files, and what is for a crash of the machine or for replicas doubles the time of that. No test
# of this server cuts the power.
CHEAP = {"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Start a server."""
    if there := shared_servers.found("postgres"):
        yield Postgres(**there)
        return
    server = Postgres(tmp_path_factory.mktemp("postgres"), settings=CHEAP)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make the certificates of the servers, and of a client."""
    return Certificates.made(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[LocalBroker]:
    """Start a broker with a listener for each protocol."""
    jars = settings.PROJECT / ".local" / "jars" / "kafka"
    if there := shared_servers.found("broker"):
        yield LocalBroker(jars=jars, **there)
        return
    files = {
        "ssl.keystore.location": str(certificates.server.both),
        "ssl.truststore.location": str(certificates.authority),
    }
    listeners = {protocol: f"{ADDRESS}:{ports.choose()}" for protocol in ("SSL", "SASL_SSL")}
    server = LocalBroker(tmp_path_factory.mktemp("kafka"), jars, listeners=listeners, properties=PROPERTIES | files)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def admin(broker: LocalBroker) -> AdminClient:
    """Return an admin client that may do anything on the broker."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def topic(request: pytest.FixtureRequest, admin: AdminClient, broker: LocalBroker) -> str:
    """Create a topic for the test, as its mark `topic` says with the arguments of `topics.given`; without one, an empty topic of one partition."""
    mark = request.node.get_closest_marker("topic")
    return topics.given(admin, broker, **(mark.kwargs if mark else {}))


@pytest.fixture(scope="session")
def ledger_template(postgres: Postgres) -> Iterator[str]:
    """Yield the name of a migrated database to copy."""
    with ledgers.template(postgres) as name:
        yield name


@pytest.fixture
def ledger_url(postgres: Postgres, ledger_template: str) -> Iterator[str]:
    """Yield a database for the test, with an empty ledger."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        yield url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """Open a session with an empty ledger."""
    with Ledger(ledger_url, actor="test") as session:
        yield session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one Spark for all tests, as small and quick to start as possible; a lost task is tried twice, as on a cluster."""
    properties = spark_setup.configure(tmp_path_factory.mktemp("spark"))
    # It logs when the interpreter ends, to a stream that pytest has closed by then.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[2,2] --properties-file {properties} pyspark-shell"
    # As with a local master, whose executors are children of the driver.
    given = {"TIDELINE_LEDGER_URL": "of the driver", "TIDELINE_WRITER_URL": "-", "TIDELINE_TEST_STARTED": "1"}
    os.environ |= given
    session = spark_session("tests")
    for name in given:
        del os.environ[name]
    yield session
    session.stop()


@pytest.fixture
def loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: LocalBroker, ledger_url: str, spark: SparkSession
) -> Iterator[Loading]:
    """Provide a pipeline to declare, on the real broker, the real ledger and the real Spark. At the end, search the database for secrets."""
    monkeypatch.setenv("TIDELINE_KAFKA", broker.bootstrap)
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    yield Loading(folder=tmp_path / "loads", bootstrap=broker.bootstrap, url=ledger_url, spark=spark)
    assert list(Scan().database(ledger_url)) == []


@pytest.fixture
def cli(tmp_path: Path, ledger_url: str, broker: LocalBroker, topic: str) -> Iterator[Cli]:
    """Provide the command line, with a declared pipeline over a topic with one partition, and an empty ledger."""
    with cli_process.shell(tmp_path, ledger_url, broker.bootstrap) as shell:
        shell.declare(NAME, topic)
        yield shell
