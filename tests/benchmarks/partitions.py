"""The same records over few and over many partitions."""

import statistics

from benchmarks.scene import RECORDS, Scene, in_turns, table

TITLE = "The same records over few and many partitions"
FEW = 10_000
_ASKED = {
    (RECORDS, 1): "",
    (RECORDS, 18): "at most 1.2 times 1 partition",
    (RECORDS, 500): "at most 1.3 times 18 partitions",
    (FEW, 18): "",
    (FEW, 500): "at most 3 s",
    (FEW, 2000): "at most 8 s",
}


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    ways = {
        f"{count:,} over {partitions}": scene.loader(f"of_{count}_{partitions}", scene.topic(count, partitions))
        for count, partitions in _ASKED
    }
    seconds = in_turns(ways, rounds=3)
    medians = dict(zip(_ASKED, map(statistics.median, seconds.values()), strict=True))
    first = {RECORDS: 1, FEW: 18}
    return [
        "The write task, claim to published, `local[2]`, in turn. What is asked is asked of a machine with nothing else to do.",
        "",
        *table(
            ("records", "partitions", "median, s", "times the fewest partitions", "asked"),
            (
                (
                    f"{count:,}",
                    f"{partitions:,}",
                    f"{medians[count, partitions]:.2f}",
                    f"{medians[count, partitions] / medians[count, first[count]]:.2f}",
                    asked,
                )
                for (count, partitions), asked in _ASKED.items()
            ),
        ),
    ]
