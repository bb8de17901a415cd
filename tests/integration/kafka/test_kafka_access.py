"""Access to a broker: connecting, permissions, and the error messages."""

import gc
import subprocess
import time
from datetime import UTC, datetime

import psutil
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from given_topics.topics import ends, produce, source, until
from tideline import settings
from tideline.declaration import Source
from tideline.deployment import java_program, secret
from tideline.errors import FatalError, RetryableError
from tideline.kafka.broker import Broker
from tideline.kafka.settings import spark_settings

WEEK_MS = 7 * 24 * 60 * 60 * 1000  # Kafka's default


@pytest.fixture
def sasl(broker, monkeypatch):
    monkeypatch.setenv("TEST_PASSWORD", broker.sasl_password)
    return security(broker.sasl_username)


def security(username, mechanism="PLAIN"):
    return {
        "protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": username,
        "sasl_password": {"env": "TEST_PASSWORD"},
    }


def test_the_sasl_listener_gives_the_same_facts(broker, topic, sasl):
    produce(broker, topic, 3)
    assert (
        Broker(source(broker.sasl_bootstrap, topic, security=sasl)).topic_facts()
        == Broker(source(broker.bootstrap, topic)).topic_facts()
    )


def test_a_password_of_quotes_and_backslashes_opens_the_door_for_both_clients(
    broker, admin, topic, monkeypatch, tmp_path
):
    username, password = 'o"brien\\', secret.marked("p\"a\\n's; s=#{1}\\")
    monkeypatch.setenv("TEST_PASSWORD", password)
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    added = UserScramCredentialUpsertion(username, scram, password.encode())
    admin.alter_user_scram_credentials([added])[username].result()
    declared = source(broker.sasl_bootstrap, topic, security=security(username, "SCRAM-SHA-256"))
    assert ends(Broker(declared)) == [0]
    assert f"Dynamic configs for topic {topic}" in java_client(broker, topic, spark_settings(declared), tmp_path)


def java_client(broker, topic, kafka_settings, folder):
    """Return what the Java client's own tool prints about a topic, with the settings that Spark would get."""
    file = folder / "client.properties"
    pairs = ((name.removeprefix("kafka."), value.replace("\\", "\\\\")) for name, value in kafka_settings.items())
    secret.write(file, "".join(f"{name}={value}\n" for name, value in pairs))
    jars = settings.PROJECT / ".local" / "jars" / "kafka"
    tool = [
        java_program.find(),
        "-cp",
        f"{jars}/*",
        "kafka.admin.ConfigCommand",
        "--bootstrap-server",
        broker.sasl_bootstrap,
    ]
    what = ["--command-config", str(file), "--describe", "--entity-type", "topics", "--entity-name", topic]
    done = subprocess.run([*tool, *what], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_wrong_password_is_fatal_at_once_and_not_shown(broker, topic, monkeypatch):
    monkeypatch.setenv("TEST_PASSWORD", secret.marked("hunter2"))
    started = time.monotonic()
    with pytest.raises(FatalError, match="refused the connection") as caught:
        Broker(source(broker.sasl_bootstrap, topic, security=security(broker.sasl_username))).topic_facts()
    assert "hunter2" not in str(caught.value)
    assert time.monotonic() - started < 5


def test_brokers_that_do_not_answer_are_named_within_15_seconds():
    started = time.monotonic()
    with pytest.raises(RetryableError, match=r"brokers 127\.0\.0\.1:1 could not answer"):
        Broker(source("127.0.0.1:1", "events")).topic_facts()
    assert time.monotonic() - started < 15


def test_a_broker_that_is_let_go_takes_its_threads_with_it(broker, topic):
    """Airflow's triggerer creates one every ten seconds, for weeks."""
    Broker(source(broker.bootstrap, topic)).topic_facts()
    threads = psutil.Process().num_threads()
    gc.disable()
    try:
        for _ in range(5):
            Broker(source(broker.bootstrap, topic)).topic_facts()
        until(lambda: psutil.Process().num_threads() <= threads)
    finally:
        gc.enable()


def test_a_missing_topic_is_reported_with_similar_names_beside_the_others(broker, topic):
    asked = Broker(source(broker.bootstrap, f"{topic}s", topic))
    found = asked.topic_facts()
    assert [facts.topic for facts in found] == [topic]
    [(name, error)] = asked.missing(found).items()
    assert (name, type(error)) == (f"{topic}s", FatalError)
    assert f"topic {topic}s does not exist; topics with a similar name: {topic}" in error.problem
    with pytest.raises(FatalError, match=f"topic {topic}s does not exist"):
        asked.offsets_at({(f"{topic}s", 0): datetime(2026, 1, 2, tzinfo=UTC)})


def test_without_a_single_topic_the_cluster_still_says_who_it_is(broker, admin):
    asked = Broker(source(broker.bootstrap, "nothing_here"))
    assert asked.topic_facts() == []
    assert asked.cluster_id() == admin.describe_cluster().result().cluster_id


def test_topics_that_the_declaration_no_longer_names_are_not_missing(broker, topic):
    asked = Broker(source(broker.bootstrap, topic))
    assert asked.missing(asked.topic_facts(), known=[topic, "named_before"]) == {}


def test_a_group_that_the_user_may_not_read_is_named(broker, admin, topic, sasl):
    group = f"tideline.{topic}"
    kind = (ResourceType.GROUP, group, ResourcePatternType.LITERAL, f"User:{broker.sasl_username}", "*")
    denied = AclBinding(*kind, AclOperation.READ, AclPermissionType.DENY)
    admin.create_acls([denied])[denied].result()
    asked = Broker(source(broker.sasl_bootstrap, topic, security=sasl))
    until(lambda: f"group {group}: not permitted" in refusal(lambda: asked.commit_heads(group, {(topic, 0): 1})))


@pytest.fixture
def deny(broker, admin, topic):
    """Deny the SASL user one permission on `topic`; wait until that takes effect."""
    kind = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{broker.sasl_username}", "*")

    def add(operation):
        for right, permission in ((AclOperation.ALL, AclPermissionType.ALLOW), (operation, AclPermissionType.DENY)):
            binding = AclBinding(*kind, right, permission)
            admin.create_acls([binding])[binding].result()

    yield add
    everything = AclBindingFilter(*kind, AclOperation.ANY, AclPermissionType.ANY)
    admin.delete_acls([everything])[everything].result()


def test_a_topic_that_may_not_be_described_is_fatal_and_not_missing(broker, topic, sasl, deny):
    deny(AclOperation.DESCRIBE)
    asked = Broker(source(broker.sasl_bootstrap, topic, security=sasl))
    for question in (asked.topic_facts, lambda: asked.missing([])):
        until(lambda question=question: f"topic {topic}: not permitted" in refusal(question))


def test_a_topic_of_a_pattern_that_may_not_be_described_is_fatal_and_not_missing(broker, topic, sasl, deny):
    deny(AclOperation.DESCRIBE)
    connection = {"bootstrap_servers": broker.sasl_bootstrap, "security": sasl}
    declared = {**connection, "topic_pattern": f"^{topic}$", "value": {"format": "bytes"}}
    asked = Broker(Source.model_validate(declared, context="impressions"))
    until(lambda: asked.topic_facts() == [])
    assert f"topic {topic}: not permitted" in refusal(lambda: asked.missing([], known=[topic]))


def refusal(question):
    """Return the text of a FatalError, or None."""
    try:
        question()
    except FatalError as error:
        return str(error)
    return ""


def test_a_topic_whose_settings_are_forbidden_counts_as_not_compacted(broker, admin, topic, sasl, deny):
    compact = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[compact])
    admin.incremental_alter_configs([resource])[resource].result()
    asked = Broker(source(broker.sasl_bootstrap, topic, security=sasl))
    until(lambda: asked.topic_facts()[0].compacted)
    assert asked.topic_facts()[0].retention_ms == WEEK_MS
    deny(AclOperation.DESCRIBE_CONFIGS)
    until(lambda: not asked.topic_facts()[0].compacted)
    assert asked.topic_facts()[0].retention_ms is None


def test_records_are_looked_at_without_a_permission_on_any_group(broker, admin, topic, sasl):
    kind = (ResourceType.GROUP, "tideline.look", ResourcePatternType.LITERAL, f"User:{broker.sasl_username}", "*")
    denied = AclBinding(*kind, AclOperation.ALL, AclPermissionType.DENY)
    admin.create_acls([denied])[denied].result()
    produce(broker, topic, 3)
    asked = Broker(source(broker.sasl_bootstrap, topic, security=sasl))
    found = asked.records_from({(topic, 0): 1}, 10)
    assert [record.offset for record in found[topic, 0]] == [1, 2]


def test_records_of_a_topic_that_may_not_be_read_are_refused(broker, topic, sasl, deny):
    produce(broker, topic, 1)
    deny(AclOperation.READ)
    asked = Broker(source(broker.sasl_bootstrap, topic, security=sasl))
    until(lambda: "not permitted" in refusal(lambda: asked.records_from({(topic, 0): 0}, 1)))
