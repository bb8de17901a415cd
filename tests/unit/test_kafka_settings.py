"""Connection settings: planner and reader get the same ones, and secrets arrive unchanged."""

import base64

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import TopicDescription

from tideline.declaration import Source
from tideline.errors import FatalError, RetryableError
from tideline.kafka.broker import Broker, led_partitions, topic_uuid
from tideline.kafka.settings import client_settings, executor_settings, spark_settings

PASSWORD = 'a"b\\c'


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)

    def source(**security):
        value = {"format": "bytes"}
        raw = {"bootstrap_servers": "broker:9092", "topics": ["t"], "value": value, "security": security}
        return Source.model_validate(raw, context="impressions")

    return source


def test_both_clients_read_committed_records_only(declared):
    common = {"bootstrap.servers": "broker:9092", "security.protocol": "PLAINTEXT", "isolation.level": "read_committed"}
    assert client_settings(declared().brokers) == common
    assert spark_settings(declared()) == {f"kafka.{name}": value for name, value in common.items()}


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_a_password_reaches_both_clients_as_it_is(declared, mechanism, module):
    source = declared(
        protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_username="me", sasl_password={"env": "TEST_PASSWORD"}
    )
    client, spark = client_settings(source.brokers), spark_settings(source)
    assert (client["sasl.mechanism"], client["sasl.username"], client["sasl.password"]) == (mechanism, "me", PASSWORD)
    assert spark["kafka.sasl.mechanism"] == mechanism
    assert spark["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="me" password="a\\"b\\\\c";'
    )
    assert PASSWORD not in repr(source)


def test_a_login_by_tokens_reaches_both_clients(declared, tmp_path):
    (tmp_path / "ca").write_text("-----BEGIN ca-----\n")
    source = declared(
        protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_url="https://login.example.com/token",
        sasl_oauth_client_id="me",
        sasl_oauth_client_secret={"env": "TEST_PASSWORD"},
        sasl_oauth_scope="topics",
        sasl_oauth_ca_location=str(tmp_path / "ca"),
        sasl_oauth_extensions={"logicalCluster": "lkc-1", "identityPoolId": "pool-1"},
    )
    common = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    }
    by_librdkafka = common | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.scope": "topics",
        "sasl.oauthbearer.extensions": "identityPoolId=pool-1,logicalCluster=lkc-1",
    }
    client, executor, spark = client_settings(source.brokers), executor_settings(source), spark_settings(source)
    assert by_librdkafka.items() <= client.items()
    assert by_librdkafka.items() <= executor.items()
    assert (client["https.ca.location"], executor["https.ca.pem"]) == (str(tmp_path / "ca"), "-----BEGIN ca-----\n")
    assert {f"kafka.{name}": value for name, value in common.items()}.items() <= spark.items()
    assert spark["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="a\\"b\\\\c" scope="topics" extension_identityPoolId="pool-1" extension_logicalCluster="lkc-1" '
        'ssl.truststore.type="PEM" ssl.truststore.certificates="-----BEGIN ca-----\\n";'
    )
    assert source.brokers.secrets() == [PASSWORD]


PEM_FILES = {"ca": "ca", "certificate": "crt", "key": "key"}


def test_pem_files_reach_librdkafka_in_the_driver_as_paths_and_executors_as_text(declared, tmp_path):
    for name in ("ca", "crt", "key"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----\n")
    source = declared(
        protocol="SSL",
        ssl_ca_location=str(tmp_path / "ca"),
        ssl_certificate_location=str(tmp_path / "crt"),
        ssl_key_location=str(tmp_path / "key"),
        ssl_key_password={"env": "TEST_PASSWORD"},
    )
    client, spark = client_settings(source.brokers), spark_settings(source)
    assert client["ssl.ca.location"] == str(tmp_path / "ca")
    assert client["ssl.certificate.location"] == str(tmp_path / "crt")
    assert client["ssl.key.location"] == str(tmp_path / "key")
    assert spark["kafka.ssl.truststore.type"] == spark["kafka.ssl.keystore.type"] == "PEM"
    assert spark["kafka.ssl.truststore.certificates"] == "-----BEGIN ca-----\n"
    assert spark["kafka.ssl.keystore.certificate.chain"] == "-----BEGIN crt-----\n"
    assert spark["kafka.ssl.keystore.key"] == "-----BEGIN key-----\n"
    assert client["ssl.key.password"] == spark["kafka.ssl.key.password"] == PASSWORD
    executor = executor_settings(source)
    texts = {f"ssl.{name}.pem": f"-----BEGIN {file}-----\n" for name, file in PEM_FILES.items()}
    files = {f"ssl.{name}.location" for name in PEM_FILES}
    assert executor == {name: value for name, value in client.items() if name not in files} | texts


def test_a_pem_file_that_is_not_there_is_named(declared):
    source = declared(protocol="SSL", ssl_ca_location="/nowhere/ca.pem")
    with pytest.raises(FatalError, match=r"source\.security\.ssl_ca_location: .* found: FileNotFoundError"):
        spark_settings(source)
    with pytest.raises(FatalError, match=r"brokers broker:9092: .*/nowhere/ca\.pem|ssl\.ca\.location"):
        Broker(source)


def description(topic_id=(1, 2), leader=0):
    node = Node(leader, "broker", 9092)
    partitions = [TopicPartitionInfo(0, node, [node], [node]), TopicPartitionInfo(1, Node(0, "b", 1), [], [])]
    return TopicDescription("t", Uuid(*topic_id), False, partitions)


def test_a_topic_id_is_the_one_that_kafka_shows():
    shown = "PyvG42XbTuiInbZE6biByA"
    topic = description((0x3F2BC6E365DB4EE8, 0x889DB644E9B881C8 - 2**64))
    assert str(topic.topic_id) == shown
    assert topic_uuid(topic).bytes == base64.urlsafe_b64decode(shown + "==")


def test_brokers_without_topic_ids_are_refused():
    with pytest.raises(FatalError, match="expected a topic id, found none"):
        topic_uuid(description((0, 0)))


def test_a_partition_without_a_leader_is_named():
    assert [p.partition for p in led_partitions(description())] == [0, 1]
    with pytest.raises(RetryableError, match=r"found none for \[0\]"):
        led_partitions(description(leader=-1))
