"""The rights of docs/permissions.md on an output topic are enough, and each of them is needed."""

from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from given_topics import acls, topics
from given_topics.output_topics import N_ROWS, all_of, origins, output, receipt, rows
from given_topics.topics import until
from identities import batch
from tideline.declaration.sections import FromEnvironment
from tideline.declaration.security import Security
from tideline.errors import FatalError, TidelineError


@pytest.fixture
def out(admin):
    return topics.created(admin, f"out_{uuid4().hex[:8]}")


@pytest.fixture
def prefix(out):
    return f"tideline.{out}"


@pytest.fixture
def user(admin, out, prefix, monkeypatch):
    """Create a user without any right on the topic, on groups and on transactional ids."""
    monkeypatch.setenv("TEST_PASSWORD", acls.PASSWORD)
    with acls.limited_user(admin, out, prefix, output=True) as name:
        yield name


@pytest.fixture
def sink(broker, out, user):
    security = Security(
        protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username=user,
        sasl_password=FromEnvironment(env="TEST_PASSWORD"),
    )
    return output(broker.sasl_bootstrap, out, pipeline=out, security=security)


@pytest.fixture
def permit(admin, out, prefix, user):
    """Give the user the page's rights, except for one."""

    def give(without=None):
        for rule in acls.bindings(out, prefix, user, output=True):
            if (rule.restype, rule.operation) != without:
                acls.add(admin, rule)

    return give


def everything(sink):
    assert sink.limits().cluster_id
    assert sink.fence(batch(1), 2) is None
    own = receipt(2)
    assert sink.commit(batch(1), own, iter(rows(1)), N_ROWS) == own == sink.look(batch(1))


def works(act):
    """Return whether it may be done: a rule takes effect a moment after it was made."""
    try:
        act()
    except TidelineError:
        return False
    return True


def test_with_the_rights_of_the_page_a_batch_is_fenced_committed_and_looked_up(broker, out, permit, sink):
    permit()
    until(lambda: works(lambda: everything(sink)))
    assert origins(broker.bootstrap, out) == all_of(1)


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ((ResourceType.TOPIC, AclOperation.WRITE), "READ and WRITE on the output topic"),
        ((ResourceType.TOPIC, AclOperation.READ), "READ and WRITE on the output topic"),
        ((ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE), "WRITE and DESCRIBE on transactional ids"),
        ((ResourceType.GROUP, AclOperation.READ), "READ on groups that begin with tideline"),
    ],
    ids=["write", "read", "transactional id", "group"],
)
def test_without_one_right_the_error_names_it(permit, sink, without, said):
    permit(without)

    def is_named():
        try:
            everything(sink)
        except FatalError as error:
            return said in str(error)
        except TidelineError:
            return False
        return False

    until(is_named, seconds=30)


def test_without_describe_configs_the_defaults_of_brokers_are_assumed(permit, sink):
    permit((ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS))
    until(lambda: works(lambda: everything(sink)))
    limits = sink.limits()
    assert (limits.max_bytes, limits.compacted) == (1_000_000, False)
