"""Send orders to a topic, round robin over its partitions: plainly, or in transactions of which some are aborted."""

from collections.abc import Iterable

from confluent_kafka import Message, Producer

from faults.checker.facts import Record

_DELIVERY_S = 120
_TRANSACTIONS = 5
_SETTINGS = {
    "enable.idempotence": True,  # a producer sends again after a kill of the broker
    "linger.ms": 20,
    "queue.buffering.max.messages": 200_000,
    "message.timeout.ms": _DELIVERY_S * 1000,
    "transaction.timeout.ms": _DELIVERY_S * 1000,
    "log_level": 0,
}


def fill(bootstrap: str, topic: str, orders: Iterable[Record], partitions: int) -> None:
    """Send records; return when all of them have arrived."""
    _send(Producer({**_SETTINGS, "bootstrap.servers": bootstrap}), topic, orders, partitions)


def fill_in_transactions(bootstrap: str, topic: str, orders: Iterable[Record], partitions: int) -> None:
    """Send records in a few transactions. Every other one is aborted, and its records must never be read."""
    held = list(orders)
    size = -(-len(held) // _TRANSACTIONS)
    producer = Producer({**_SETTINGS, "bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(_DELIVERY_S)
    for number in range(_TRANSACTIONS):
        producer.begin_transaction()
        _send(producer, topic, held[number * size : (number + 1) * size], partitions)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(_DELIVERY_S)


def _send(producer: Producer, topic: str, orders: Iterable[Record], partitions: int) -> None:
    lost: list[object] = []

    def noted(error: object, message: Message) -> None:
        if error is not None:
            lost.append(error)

    for order in orders:
        headers = list(order.headers) if order.headers else None
        while True:
            try:
                producer.produce(
                    topic,
                    order.value,
                    key=order.key,
                    headers=headers,
                    partition=order.offset % partitions,
                    on_delivery=noted,
                )
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if order.offset % 1000 == 0:
            producer.poll(0)
    assert producer.flush(_DELIVERY_S) == 0, "records did not reach the broker"
    assert not lost, lost[0]
