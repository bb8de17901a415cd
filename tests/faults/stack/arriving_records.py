"""Send records through a broker that is killed and restarted meanwhile."""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random

from confluent_kafka import Producer

from faults.checker.facts import Record
from faults.jobs import orders
from faults.stack.stack_scene import PARTITIONS, Scene
from faults.stack.stack_schedules import Schedule


def arrivals(scene: Scene, schedule: Schedule, busy: Callable[[], bool]) -> None:
    """Send records to both topics, and continue while `busy`: a fault still waits for a task that loads records."""
    rng = Random(schedule.seed)
    pause = schedule.window_s / len(schedule.bursts)
    for number, count in enumerate(schedule.bursts):
        scene.pause_until(number * pause)
        burst(scene, rng, count)
    while busy():
        burst(scene, rng, 5)
        scene.pause(pause)


def burst(scene: Scene, rng: Random, count: int) -> None:
    """Send `count` records to each topic."""
    for topic in scene.pipelines:
        send(scene.system.bootstrap, topic, orders.records(rng, count), seconds=scene.deadline - time.monotonic())


def send(
    bootstrap: str, topic: str, sent: Iterable[Record], *, moment: datetime | None = None, seconds: float = 60
) -> None:
    """Send records round robin; raise AssertionError unless all of them reach the log in time."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    stamp = {} if moment is None else {"timestamp": round(moment.timestamp() * 1000)}
    failed: list[object] = []
    for record in sent:
        producer.produce(
            topic,
            record.value,
            key=record.key,
            headers=list(record.headers or ()),
            partition=record.offset % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
            **stamp,
        )
    left = producer.flush(max(1.0, seconds))
    assert (left, failed) == (0, []), f"{left} records were not sent in time: {failed[:3]}"
