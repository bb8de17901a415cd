"""Logins by tokens: of an OIDC issuer, with both clients and the topics that are written, also where they end in the middle of a batch; of AWS."""

import subprocess

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import records
from given_topics.output_topics import committed_records
from loads.kafka_loading import TopicLoading, output_of
from servers.token_issuer import AUDIENCE, TokenIssuer
from tideline.deployment import java_program, secret
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.kafka.broker import Broker
from tideline.kafka.newest_records import newest_of
from tideline.kafka.settings import spark_settings
from tideline.settings import PROJECT
from tideline.spark_jobs.spark_errors import explained
from tideline_stack.broker import LocalBroker

SLOW = """
    import time

    def records(batch):
        time.sleep({seconds} if batch.num_rows else 0)
        return batch
"""
LIFETIME_SECONDS = 15
_LISTENER = "listener.name.sasl_plaintext"


@pytest.fixture(scope="module")
def issuer(certificates):
    # The client asks for the next token when a fifth of this one's life is left. That must be well above a second: a broker refuses a login
    # within a second of the last one as it refuses one at a listener without logins.
    with TokenIssuer(certificates, lifetime_seconds=LIFETIME_SECONDS) as server:
        yield server


@pytest.fixture(scope="module")
def oauth_broker(issuer, tmp_path_factory):
    """Yield a broker that takes tokens only, and ends connections whose token has ended."""
    folder = tmp_path_factory.mktemp("oauth")
    keys = folder / "keys.json"
    keys.write_text(issuer.keys())
    security = "org.apache.kafka.common.security.oauthbearer"
    broker = LocalBroker(
        folder / "broker",
        PROJECT / ".local" / "jars" / "kafka",
        properties={
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{_LISTENER}.plain.sasl.jaas.config": "",
            f"{_LISTENER}.oauthbearer.sasl.jaas.config": f"{security}.OAuthBearerLoginModule required;",
            f"{_LISTENER}.oauthbearer.sasl.server.callback.handler.class": f"{security}.OAuthBearerValidatorCallbackHandler",
            f"{_LISTENER}.oauthbearer.connections.max.reauth.ms": "3000",
            f"{_LISTENER}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{_LISTENER}.sasl.oauthbearer.expected.audience": AUDIENCE,
        },
        java_options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",),
    )
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def security(issuer, certificates, monkeypatch):
    """Return the section `security` that logs in by tokens."""
    monkeypatch.setenv("TEST_CLIENT_SECRET", issuer.client_secret)
    return {
        "protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_url": issuer.url,
        "sasl_oauth_client_id": issuer.client_id,
        "sasl_oauth_client_secret": {"env": "TEST_CLIENT_SECRET"},
        "sasl_oauth_scope": "topics",
        "sasl_oauth_ca_location": str(certificates.authority),
    }


@pytest.fixture
def by_token(loading, oauth_broker, monkeypatch):
    """Return a pipeline whose brokers take tokens only."""
    monkeypatch.setenv("TIDELINE_KAFKA", oauth_broker.sasl_bootstrap)
    return TopicLoading(folder=loading.folder, bootstrap=oauth_broker.bootstrap, url=loading.url, spark=loading.spark)


def ten_records(loading, **config):
    topic = records.create(loading.bootstrap, **config)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    return topic


def test_planner_and_reader_log_in_by_tokens_that_end_while_a_batch_is_loaded(by_token, issuer, security):
    """The transform takes longer than a token lives, and the brokers end connections whose token has ended."""
    by_token.declare(ten_records(by_token), security=security, transform=SLOW.format(seconds=LIFETIME_SECONDS + 1))
    before = len(issuer.given)
    by_token.run()
    assert (len(by_token.output()), by_token.heads()) == (10, [10])
    assert len(issuer.given) - before >= 3
    assert {claims["scope"] for claims in issuer.given} == {"topics"}


def test_what_spark_refuses_is_read_by_the_python_client_by_tokens(by_token, security):
    topic = records.create(by_token.bootstrap, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": by_token.bootstrap})
    for number in range(10):
        nanoseconds = {"timestamp": 1_795_599_646_000_000_000} if number == 4 else {}
        producer.produce(topic, records.record(number), **nanoseconds)
    assert producer.flush(20) == 0
    by_token.declare(topic, security=security)
    by_token.run()
    assert len(by_token.output()) == 10


def test_a_topic_and_its_dead_letters_are_written_by_tokens(by_token, oauth_broker, security):
    topic = ten_records(by_token)
    records.produce(by_token.bootstrap, topic, [b"no JSON"])
    out = output_of(AdminClient({"bootstrap.servers": oauth_broker.bootstrap}), topic)
    letters = records.create(by_token.bootstrap)
    by_token.declare_topic(topic, out, source={"security": security}, security=security, rejects={"topic": letters})
    by_token.run()
    by_token.expect(out, [(0, offset) for offset in range(10)])
    assert [one.value() for one in committed_records(by_token.bootstrap, letters)] == [b"no JSON"]


def test_an_issuer_that_is_down_is_tried_again_and_one_that_refuses_is_not(by_token, security, monkeypatch):
    topic = ten_records(by_token)
    nowhere = "https://127.0.0.1:1/token"
    by_token.declare(topic, security=security | {"sasl_oauth_token_url": nowhere})
    with pytest.raises(RetryableError, match=r"Could not connect.*\n.*the issuer of source\.security can be reached"):
        Broker(by_token.pipeline.source).cluster_id()
    by_token.declare(topic, security=security)
    wrong = secret.marked("wrong")
    monkeypatch.setenv("TEST_CLIENT_SECRET", wrong)
    with pytest.raises(FatalError, match=r"invalid_client.*\n.*correct source\.security") as caught:
        Broker(by_token.pipeline.source).cluster_id()
    assert wrong not in str(caught.value)


@pytest.fixture
def by_role(by_token, monkeypatch):
    """Return the source of a pipeline that logs in by a role of AWS, at brokers that know none."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", secret.marked("aws-id"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret.marked("aws"))
    by_token.declare(
        ten_records(by_token),
        security={"protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-central-1"},
    )
    return by_token.pipeline.source


def test_the_python_clients_send_the_token_of_aws(by_role):
    """There is no Amazon MSK here. That the brokers refuse what they have got shows that it was sent."""
    with pytest.raises(FatalError, match=r"refused the connection.*invalid_token.*\n.*correct source\.security"):
        Broker(by_role).cluster_id()
    with pytest.raises(TidelineError, match="invalid_token"):
        newest_of(by_role, 1)


def test_without_its_jar_spark_says_what_to_download(by_role, by_token):
    """The Spark of the tests has the jars of `tideline jars` without --msk."""
    client = by_token.spark._jvm.org.apache.kafka.clients.consumer.KafkaConsumer
    text = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    settings = {name.removeprefix("kafka."): value for name, value in spark_settings(by_role).items()}
    settings |= {f"{part}.deserializer": text for part in ("key", "value")}
    given = by_token.spark._jvm.java.util.HashMap(settings)
    said = r"lacks what logs in at Amazon MSK.*\n.*tideline jars FOLDER --msk"
    with pytest.raises(FatalError, match=said), explained("attempt 1", lambda: None):
        client(given)


def test_the_java_client_loads_the_login_of_aws(by_role, oauth_broker, tmp_path):
    """It asks the brokers for the mechanism, which these have not."""
    settings = {name.removeprefix("kafka."): value for name, value in spark_settings(by_role).items()}
    settings.pop("bootstrap.servers")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    jars = PROJECT / ".local" / "jars"
    classes = f"{jars}/kafka/*:{next(jars.glob('msk/aws-msk-iam-auth-*.jar'))}"
    tool = ["kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--command-config", str(file)]
    command = [java_program.find(), "-cp", classes, *tool, "--bootstrap-server", oauth_broker.sasl_bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "mechanism 'AWS_MSK_IAM' not enabled in the server" in done.stdout + done.stderr
