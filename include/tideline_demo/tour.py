"""`make tour`: the other shipped pipelines, a part each. A part begins with what it needs, so it can be played alone, and again.

`python -m tideline_demo.tour [PART ...]` plays the named parts, or all. It starts the stack unless it is up.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tideline.errors import FatalError, TidelineError
from tideline_demo import anomalies, changes, events, lake, offer_cache, sessions
from tideline_demo.stage import DemoStage, opened
from tideline_stack.up import up


@dataclass(frozen=True, slots=True, kw_only=True)
class TourPart:
    """One part of the tour."""

    about: str
    play: Callable[[DemoStage], list[str]]
    """Plays it and returns a line for each difference that it finds."""


PARTS: Mapping[str, TourPart] = {
    "topics": TourPart(
        about="impressions in Avro with their offers to another topic, and the rejects to a third one", play=events.play
    ),
    "lake": TourPart(about="impressions into a Delta table, and a replay of a batch", play=lake.play),
    "offers": TourPart(about="offers as they are now, by upserts and deletes, and a replay", play=offer_cache.play),
    "changes": TourPart(
        about="advertisers as they are in another database, by its changes through a real Debezium", play=changes.play
    ),
    "sessions": TourPart(
        about="impressions and clicks folded into visits, an outage, and a rewind", play=sessions.play
    ),
    "anomalies": TourPart(
        about="offers that stop converting, against a baseline that another job counts", play=anomalies.play
    ),
}


def check(names: Sequence[str]) -> None:
    """Raise FatalError if a part has none of these names."""
    if unknown := [name for name in names if name not in PARTS]:
        listed = "\n".join(f"    {name:<10} {part.about}" for name, part in PARTS.items())
        raise FatalError(
            f"the tour has no part {', '.join(unknown)}; expected some of:\n{listed}",
            next_step="name parts like this: make tour PARTS='sessions lake'",
        )


def main() -> int:
    """Play the parts that the command line names; return 0 only when every record is accounted for."""
    try:
        return tour(sys.argv[1:])
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def tour(names: Sequence[str]) -> int:
    """Play the named parts, or all.

    Returns:
        0 when every record is accounted for, else 1.

    Raises:
        FatalError: A part is unknown, or a step failed that must succeed.
        RetryableError: The stack did not come up, or Kafka or Airflow did not answer in time.
    """
    check(names)
    up()
    chosen = list(dict.fromkeys(names)) or list(PARTS)
    with opened() as stage:
        problems = []
        for number, name in enumerate(chosen, 1):
            print(f"\n{number}. {name}: {PARTS[name].about}.")
            problems += PARTS[name].play(stage)
        stage.judge(problems)
        stage.say_login()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
