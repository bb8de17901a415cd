"""The shipped pipeline `entity_cache`: the offers as they are now, whatever is loaded again."""

import pytest
from confluent_kafka.admin import AdminClient

from loads.loading import Loading
from test_replay import EVERYTHING
from tideline.settings import PROJECT
from tideline.testing import trial
from tideline_demo import offers as demo_offers

FOLDER = PROJECT / "include" / "pipelines" / "entity_cache"
COUNT = 4_000


def cache(loading):
    rows = loading.rows("SELECT offer_id, kafka_partition, kafka_offset, bid_micros FROM ads.offer_cache")
    return {row[0]: ((row[1], row[2]), row[3]) for row in rows}


@pytest.fixture
def offers(loading):
    """Provide the pipeline with its topic, in which there is a change from before the pipeline began."""
    demo_offers.create_topic(loading.bootstrap)
    demo_offers.produce(loading.bootstrap, 10, seed=1)
    yield Loading(folder=FOLDER, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)
    admin = AdminClient({"bootstrap.servers": loading.bootstrap})
    admin.delete_topics([demo_offers.TOPIC])[demo_offers.TOPIC].result(30)


def test_the_cache_holds_the_offers_as_they_are_and_a_replay_changes_nothing(offers):
    assert offers.run() == [], "it begins at the end of the topic"
    sent = demo_offers.produce(offers.bootstrap, COUNT, seed=2)
    assert len(sent.deleted) > 10
    offers.run()
    first = cache(offers)
    assert sent.compare(first) == []
    assert len(first) == len(sent.newest) - len(sent.deleted)
    counts = offers.counts()
    assert (counts["n_read"], counts["n_written"]) == (COUNT, COUNT)
    offers.run(EVERYTHING)
    assert cache(offers) == first


def test_it_goes_on_where_it_was(offers):
    offers.run()
    first = demo_offers.produce(offers.bootstrap, COUNT, seed=3)
    offers.run()
    second = demo_offers.produce(offers.bootstrap, COUNT, seed=4)
    offers.run()
    both = demo_offers.SentOffers(newest=first.newest | second.newest)
    assert both.compare(cache(offers)) == []
    assert set(cache(offers)) == set(both.newest) - both.deleted


def test_a_sample_of_it():
    found = trial(
        FOLDER,
        [
            (b'{"offer_id": 7}', b'{"advertiser": "a", "category": "food", "bid_micros": 5}'),
            (b'{"offer_id": 7}', None),
            (b"7", b"{}"),
        ],
    )
    assert [(row["offer_id"], row["bid_micros"]) for row in found.rows] == [(7, 5)]
    assert found.deletions == [(2, {"offer_id": 7})]
    assert [(one.line, one.reason[:4]) for one in found.rejects] == [(3, "key:")]
