"""TLS from end to end: a load in which every connection is encrypted, and what is refused."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

import records
from given_topics.topics import source
from loads.kafka_loading import TopicLoading, output_of
from servers.cli_process import Cli
from servers.tls import ADDRESS, Certificates, TlsTerminator
from tideline.errors import FatalError
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger

LOOKED_UP = """
    from pyspark.sql import functions as F

    from tideline.transforms import dimension

    def frame(df):
        return df.join(F.broadcast(dimension(df.sparkSession, "ads.names")), "id", "left")
"""


@pytest.fixture
def terminator(ledger_url, certificates):
    with TlsTerminator(ledger_url, certificates) as server:
        yield server


@pytest.fixture
def security(certificates, broker, monkeypatch):
    """Return the section `security` of each protocol: with a certificate of the client, and with a password."""
    monkeypatch.setenv("TEST_KAFKA_PASSWORD", broker.sasl_password)
    trusted = {"ssl_ca_location": str(certificates.authority)}
    return {
        "SSL": {
            "protocol": "SSL",
            "ssl_certificate_location": str(certificates.client.certificate),
            "ssl_key_location": str(certificates.client.key),
            **trusted,
        },
        "SASL_SSL": {
            "protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": broker.sasl_username,
            "sasl_password": {"env": "TEST_KAFKA_PASSWORD"},
            **trusted,
        },
    }


@pytest.fixture
def encrypted(loading, terminator, security, broker, monkeypatch):
    """Return a pipeline that reaches its ledger and its brokers by TLS only, and a producer's plain address."""
    url = terminator.verified()
    monkeypatch.setenv("TIDELINE_LEDGER_URL", url)
    monkeypatch.setenv("TEST_SSL", broker.listeners["SSL"])
    monkeypatch.setenv("TEST_SASL_SSL", broker.listeners["SASL_SSL"])
    return TopicLoading(folder=loading.folder, bootstrap=broker.bootstrap, url=url, spark=loading.spark)


def ten_records(loading) -> str:
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    return topic


def only_encrypted(terminator) -> int:
    """Return how many connections Postgres had, none of which was without TLS."""
    assert terminator.refused == 0
    assert set(terminator.encrypted) == {"TLSv1.3"}
    return len(terminator.encrypted)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_planner_reader_executors_and_command_line_load_a_table_by_tls_alone(
    encrypted, security, terminator, protocol, tmp_path
):
    encrypted.declare(
        ten_records(encrypted),
        bootstrap_servers={"env": f"TEST_{protocol}"},
        security=security[protocol],
        transform=LOOKED_UP if protocol == "SSL" else "",
    )
    encrypted.rows("SELECT 1")
    create = "CREATE SCHEMA ads; CREATE TABLE ads.names AS SELECT id::bigint FROM generate_series(0, 4) id; SELECT 1"
    with Ledger(encrypted.url, actor="test") as ledger, ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute(create)
    before = only_encrypted(terminator)
    encrypted.run()
    assert len(encrypted.output()) == 10
    assert encrypted.heads() == [10]
    # The verbs, the driver's sessions, the table that is looked up, and at least one executor that copies rows.
    assert only_encrypted(terminator) - before >= 4
    shell = Cli(folder=encrypted.folder.parent, variables=variables_of(encrypted, protocol))
    (stream,) = shell.json("streams", encrypted.folder.name)["streams"]
    assert (stream["head"], stream["end"]) == (10, 10)
    only_encrypted(terminator)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_what_spark_refuses_is_read_by_the_python_client_by_tls_alone(encrypted, security, protocol):
    topic = records.create(encrypted.bootstrap, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": encrypted.bootstrap})
    for number in range(10):
        nanoseconds = {"timestamp": 1_795_599_646_000_000_000} if number == 4 else {}
        producer.produce(topic, records.record(number), **nanoseconds)
    assert producer.flush(20) == 0
    encrypted.declare(topic, bootstrap_servers={"env": f"TEST_{protocol}"}, security=security[protocol])
    encrypted.run()
    assert len(encrypted.output()) == 10


def variables_of(loading, protocol) -> dict[str, str]:
    names = ("TEST_KAFKA_PASSWORD", f"TEST_{protocol}")
    return {"TIDELINE_LEDGER_URL": loading.url, **{name: os.environ[name] for name in names}}


def test_a_topic_is_written_by_tls_alone(encrypted, security, terminator, admin):
    topic = ten_records(encrypted)
    out = output_of(admin, topic)
    encrypted.declare_topic(
        topic,
        out,
        source={"bootstrap_servers": {"env": "TEST_SSL"}, "security": security["SSL"]},
        bootstrap_servers={"env": "TEST_SASL_SSL"},
        security=security["SASL_SSL"],
    )
    encrypted.run()
    encrypted.expect(out, [(0, offset) for offset in range(10)])
    only_encrypted(terminator)


# What is refused -----------------------------------------------------------------------------------------------------------------


def refused(url) -> str:
    """Return the text of the error, which a retry cannot heal and which shows no password."""
    with (
        pytest.raises(FatalError, match="the ledger's database refused the connection") as caught,
        Ledger(url, actor="test"),
    ):
        pass
    assert "docs/deploy.md#tls" in str(caught.value)
    return str(caught.value)


def test_a_ledger_without_tls_is_refused_where_tls_is_demanded(ledger_url, certificates):
    assert "server does not support SSL" in refused(
        f"{ledger_url}?sslmode=verify-full&sslrootcert={certificates.authority}"
    )


def test_a_connection_without_tls_is_refused_by_a_server_that_demands_it(terminator):
    assert "no encryption" in refused(terminator.url(sslmode="disable"))
    assert terminator.encrypted == []


def test_a_ledger_under_another_name_is_refused(terminator):
    assert "does not match host name" in refused(terminator.verified(host="localhost"))


def test_a_ledger_with_a_certificate_of_another_authority_is_refused(terminator, tmp_path):
    other = Certificates.made(tmp_path)
    assert "certificate verify failed" in refused(terminator.verified(sslrootcert=str(other.authority)))


def test_a_missing_file_of_authorities_is_named(terminator, tmp_path):
    url = terminator.verified(sslrootcert=str(tmp_path / "gone.pem"))
    assert "gone.pem" in refused(url)


def facts(address, security):
    return Broker(source(address, "any", security=security)).topic_facts()


def test_brokers_of_another_authority_or_under_another_name_are_refused(broker, security, tmp_path):
    """The client waits ten seconds for a better answer, so both are asked at the same time."""
    address, trusting = broker.listeners["SASL_SSL"], security["SASL_SSL"]
    other = Certificates.made(tmp_path)
    asked = (
        (address, trusting | {"ssl_ca_location": str(other.authority)}),
        (address.replace(ADDRESS, "localhost"), trusting),
    )
    with ThreadPoolExecutor() as pool:
        for answer in [pool.submit(facts, *each) for each in asked]:
            with pytest.raises(FatalError, match=r"refused the connection: .*certificate verify failed"):
                answer.result()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_client_without_tls_gets_no_answer_from_brokers_that_demand_it(broker, protocol):
    plain = AdminClient({"bootstrap.servers": broker.listeners[protocol], "log_level": 0})
    with pytest.raises(KafkaException):
        plain.list_topics(timeout=1)
