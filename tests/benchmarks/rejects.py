"""A load without rejects compared with loads of which a share is rejected, for each step that rejects."""

import json
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.rivals import TOO_DEAR
from benchmarks.scene import PARTITIONS, RECORDS, Scene, in_turns, table

TITLE = "Rejects"
_KINDS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "malformed": lambda value: json.dumps(value).encode()[:-1],
    "of a wrong type": lambda value: json.dumps(value | {"offer_id": "none"}).encode(),
    "refused by a CHECK of the table": lambda value: json.dumps(value | {"price_micros": TOO_DEAR}).encode(),
}
_SHARES = {7: 1.5, 1: 1.15}
"""Share of rejects in percent -> permitted time, as a multiple of the load without rejects."""


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    ways = {"clean": scene.loader("clean", scene.topic(RECORDS, PARTITIONS))}
    for number, (kind, spoiled) in enumerate(_KINDS.items()):
        for share in _SHARES:
            topic = scene.topic(RECORDS, PARTITIONS, spoil=_spoil(share, spoiled))
            ways[f"{share} % {kind}"] = scene.loader(f"spoiled_{number}_{share}", topic)
    seconds = in_turns(ways, rounds=3)
    clean = seconds.pop("clean")
    rows = [("none", f"{statistics.median(clean):.2f}", "1.00", "")]
    for name, found in seconds.items():
        ratio = statistics.median(one / other for one, other in zip(found, clean, strict=True))
        rows.append(
            (name, f"{statistics.median(found):.2f}", f"{ratio:.2f}", f"at most {_SHARES[int(name.split()[0])]}")
        )
    return [
        f"The write task over {RECORDS:,} records in {PARTITIONS} partitions, claim to published, `local[2]`, in turn.",
        "",
        *table(("rejects", "median, s", "times the clean load of the same round", "asked"), rows),
    ]


def _spoil(share: int, spoiled: Callable[[dict[str, Any]], bytes]) -> Callable[[int, dict[str, Any]], bytes]:
    # Spread evenly: 7919 and 100 have no common divisor.
    return lambda number, value: spoiled(value) if number * 7919 % 100 < share else json.dumps(value).encode()
