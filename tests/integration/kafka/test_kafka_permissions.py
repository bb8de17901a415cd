"""The Kafka rights of docs/permissions.md are enough, and the page says what fails without each of them."""

import json
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from ruamel.yaml import YAML

import records
from given_ledger import granted_rights
from given_topics import acls
from given_topics.topics import produce, source, until
from loads.loading import Loading
from tideline.declaration.source import Source
from tideline.domain.requests import KeptRejects
from tideline.errors import FatalError, TidelineError
from tideline.kafka.broker import Broker
from tideline.settings import PROJECT

EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"


@pytest.fixture
def group():
    """Return a prefix of groups that no other test uses."""
    return f"tideline.{uuid4().hex[:8]}"


@pytest.fixture
def login(broker, admin, topic, group, monkeypatch):
    """Declare the login of a user without any right."""
    monkeypatch.setenv("TEST_PASSWORD", acls.PASSWORD)
    with acls.limited_user(admin, topic, group) as user:
        yield {
            "protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": user,
            "sasl_password": {"env": "TEST_PASSWORD"},
        }


@pytest.fixture
def permit(admin, topic, group, login):
    """Give the user the page's rights, except for one."""

    def give(without=None):
        for rule in acls.bindings(topic, group, login["sasl_username"]):
            if (rule.restype, rule.operation) != without:
                acls.add(admin, rule)

    return give


@pytest.fixture
def declared(broker, topic, login) -> Source:
    return source(broker.sasl_bootstrap, topic, security=login)


def works(question) -> bool:
    """Return whether the user may ask: a rule takes effect a moment after it was made."""
    try:
        question()
    except TidelineError:
        return False
    return True


def allowed_everything(broker, topic, group):
    """Return whether all rights of the page are in effect."""
    return (
        works(broker.topic_facts)
        and broker.topic_facts()[0].retention_ms is not None
        and works(lambda: broker.records_from({(topic, 0): 0}, 1))
        and works(lambda: broker.commit_heads(f"{group}_x", {(topic, 0): 1}))
    )


def test_with_the_rights_of_the_page_everything_can_be_asked(broker, topic, group, declared, permit):
    produce(broker, topic, 3)
    permit()
    asked = Broker(declared)
    until(lambda: allowed_everything(asked, topic, group))
    assert [record.offset for record in asked.records_from({(topic, 0): 0}, 10)[topic, 0]] == [0, 1, 2]


def test_without_read_on_the_topic_it_is_not_permitted(topic, declared, permit):
    permit(without=(ResourceType.TOPIC, AclOperation.READ))
    with pytest.raises(FatalError, match=f"topic {topic}: not permitted"):
        Broker(declared).topic_facts()


def test_without_describe_configs_a_topic_has_no_retention(broker, topic, declared, permit):
    permit(without=(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS))
    asked = Broker(declared)
    until(lambda: works(asked.topic_facts))
    assert [facts.retention_ms for facts in asked.topic_facts()] == [None]


def test_without_read_on_the_group_the_heads_are_not_committed(broker, topic, group, declared, permit):
    permit(without=(ResourceType.GROUP, AclOperation.READ))
    asked = Broker(declared)
    until(lambda: works(asked.topic_facts))
    with pytest.raises(FatalError, match=f"group {group}_x: not permitted"):
        asked.commit_heads(f"{group}_x", {(topic, 0): 1})


def impression(number: int) -> bytes:
    return json.dumps(
        {
            "impression_id": str(uuid4()),
            "offer_id": number,
            "user_id": "u",
            "country": "DE",
            "price_micros": 1_000_000,
            "shown_at": "2026-11-21T14:00:00Z",
        }
    ).encode()


@pytest.fixture
def example(broker, topic, login, tmp_path):
    """Return the folder of the example, with this topic and this login."""
    folder = tmp_path / "impressions"
    folder.mkdir()
    declaration = YAML(typ="safe").load((EXAMPLE / "pipeline.yaml").read_text())
    declaration["source"] |= {"bootstrap_servers": broker.sasl_bootstrap, "topics": [topic], "security": login}
    (folder / "pipeline.yaml").write_text(json.dumps(declaration | {"rejects": {"fail_above": 0.5}}))
    for name in ("transform.py", "target.sql"):
        (folder / name).write_text((EXAMPLE / name).read_text())
    return folder


@pytest.fixture
def loads(example, broker, postgres, spark, monkeypatch):
    """Provide the example, each process with its own role."""
    with granted_rights.warehouse(postgres) as warehouse:
        urls = warehouse.urls
        monkeypatch.setenv("TIDELINE_LEDGER_URL", urls.writer)
        monkeypatch.setenv("TIDELINE_STAGER_URL", urls.stager)
        yield Loading(
            folder=example, bootstrap=broker.bootstrap, url=urls.operator, writer_url=urls.writer, spark=spark
        )


def test_the_example_loads_and_re_drives_with_the_rights_of_the_page(loads, topic, group, declared, permit):
    """With Spark: executors read, stage and store rejects, the driver reads the dimension."""
    records.produce(loads.bootstrap, topic, [*map(impression, range(1, 6)), b"{bad"])
    permit()
    until(lambda: allowed_everything(Broker(declared), topic, group))
    assert loads.run() == [1]
    assert loads.run(KeptRejects()) == [2]
    assert loads.rows("SELECT advertiser FROM ads.impressions ORDER BY offer_id")[0] == ("advertiser 1",)
    assert (loads.rows("SELECT count(*)::int FROM ads.impressions"), len(loads.rejects())) == ([(5,)], 1)
    assert (loads.heads(), loads.staging_tables()) == ([6], [])
