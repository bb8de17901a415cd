"""The three verbs on a real broker, a real Spark and a real Postgres: each record is in the output or in the rejects, once."""

import json
from decimal import Decimal

import records


def expected(sent: dict) -> dict:
    decoded = {place: json.loads(value) for place, value in sent.items()}
    return {place: (row["id"], row["name"], Decimal(str(row["price"]))) for place, row in decoded.items()}


def test_output_is_what_was_produced(loading):
    topic = records.create(loading.bootstrap, partitions=3)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(1000)), partitions=3)
    loading.declare(topic)
    loading.run()
    assert loading.output() == expected(sent)
    assert loading.counts() == {"n_read": 1000, "n_written": 1000, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}
    assert sum(loading.heads()) == 1000


def test_a_bad_record_costs_itself_only(loading):
    topic = records.create(loading.bootstrap)
    bad = {
        3: b"{not json",
        5: b"\xff\xfe",
        7: None,
        9: b'{"id": "nine"}',
        11: b'{"name": "no id"}',
        13: b'{"id": 13, "price": 5000}',
        15: b'{"id": 15, "name": "nul \\u0000"}',
    }
    sent = records.produce(loading.bootstrap, topic, (bad.get(n, records.record(n)) for n in range(20)))
    loading.declare(topic)
    loading.run()
    good = {place: value for place, value in sent.items() if place[1] not in bad}
    assert loading.output() == expected(good), loading.rejects()
    rejects = loading.rejects()
    assert {offset: value for (_, offset), (_, _, value) in rejects.items()} == bad
    assert {offset: step for (_, offset), (step, _, _) in rejects.items()} == {
        3: "decode", 5: "decode", 7: "decode", 9: "decode", 11: "store", 13: "store", 15: "decode",
    }  # fmt: skip
    assert loading.counts() == {"n_read": 20, "n_written": 13, "n_rejected": 7, "n_filtered": 0, "n_gap": 0}


def test_a_run_of_records_that_the_table_refuses_costs_only_itself(loading):
    topic = records.create(loading.bootstrap)
    refused = [b'{"name": "no id"}'] * 150
    records.produce(loading.bootstrap, topic, [*refused, *map(records.record, range(250))])
    loading.declare(topic)
    loading.run()
    assert {offset for _, offset in loading.rejects()} == set(range(150))
    assert {offset for _, offset in loading.output()} == set(range(150, 400))
