"""A connection lost while a transaction is committed: the outcome is found, and nothing is committed twice."""

from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient

from given_topics import topics
from given_topics.output_topics import N_ROWS, all_of, origins, output, receipt, rows
from identities import batch
from servers.cutting_proxy import CuttingProxy, cut_after, cut_before
from tideline import settings
from tideline.errors import RetryableError
from tideline_stack import ports
from tideline_stack.broker import LocalBroker

END_OF_TRANSACTION = "\x00\x1a\x00\x01"
"""How a request EndTxn, version 1, begins: its number in the protocol is 26."""


class Proxied:
    """A broker whose clients reach it through a proxy only."""

    def __init__(self, folder):
        self.port = ports.choose()
        self.proxies = ExitStack()
        self.proxy = self.proxies.enter_context(self.new_proxy())
        sasl_port = ports.choose()
        listeners = f"PLAINTEXT://127.0.0.1:{self.proxy.port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
        properties = {"advertised.listeners": listeners, "auto.create.topics.enable": "true"}
        jars = settings.PROJECT / ".local" / "jars" / "kafka"
        self.server = LocalBroker(folder, jars, port=self.port, sasl_port=sasl_port, properties=properties)
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"

    def new_proxy(self, port=0):
        return CuttingProxy(f"postgresql://127.0.0.1:{self.port}/none", port=port)

    def answer_again(self):
        """Replace a proxy that takes no connections."""
        self.proxy = self.proxies.enter_context(self.new_proxy(self.proxy.port))


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    broker = Proxied(tmp_path_factory.mktemp("proxied"))
    with broker.proxies:
        broker.server.start()
        yield broker
        broker.server.stop()


@pytest.fixture
def out(proxied, request):
    admin = AdminClient({"bootstrap.servers": proxied.bootstrap, "log_level": 0})
    return topics.created(admin, f"out_{abs(hash(request.node.name))}", partitions=2)


def then(armed, batch_id):
    """Yield the rows of a batch, and arm the proxy before the transaction ends."""
    yield from rows(batch_id)
    armed()


@pytest.mark.parametrize("cut", [cut_before, cut_after])
def test_a_commit_whose_connection_is_cut_is_committed_once(proxied, out, cut):
    sink, own = output(proxied.bootstrap, out, pipeline=out), receipt(1)
    arm = partial(proxied.proxy.at, END_OF_TRANSACTION, cut)
    assert sink.commit(batch(7), own, then(arm, 7), N_ROWS) == own
    assert proxied.proxy.acted.is_set()
    assert sink.fence(batch(7), 2) == own
    assert origins(proxied.bootstrap, out) == all_of(7)


@pytest.mark.parametrize("cut", [cut_before, cut_after])
def test_when_the_brokers_do_not_answer_any_more_the_next_attempt_finds_out(proxied, out, cut):
    sink, own = output(proxied.bootstrap, out, pipeline=out, seconds=3), receipt(1)

    def for_good(server, data):
        proxied.proxy.refuse()
        return cut(server, data)

    arm = partial(proxied.proxy.at, END_OF_TRANSACTION, for_good)
    with pytest.raises(RetryableError, match="whether the rows are committed is not known"):
        sink.commit(batch(7), own, then(arm, 7), N_ROWS)
    proxied.answer_again()
    found = sink.fence(batch(7), 2)
    assert found == (own if cut is cut_after else None)
    if found is None:
        sink.commit(batch(7), receipt(2), iter(rows(7)), N_ROWS)
    assert origins(proxied.bootstrap, out) == all_of(7)


def test_a_topic_that_is_deleted_while_rows_are_sent_stays_deleted(proxied, out):
    """These brokers create topics automatically: auto.create.topics.enable is set."""
    admin = AdminClient({"bootstrap.servers": proxied.bootstrap, "log_level": 0})

    def deleted():
        admin.delete_topics([out])[out].result(20)
        topics.until(lambda: out not in admin.list_topics(timeout=20).topics)
        yield from rows(7)

    with pytest.raises(RetryableError):
        output(proxied.bootstrap, out, pipeline=out, seconds=3).commit(batch(7), receipt(1), deleted(), N_ROWS)
    assert out not in admin.list_topics(timeout=20).topics
