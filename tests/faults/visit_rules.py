"""Define the visits of users that stateful schedules fold: who sends a record, and when a visit ends. Imports nothing of the product."""

from datetime import timedelta

PAUSE, LONG_PAUSE = timedelta(minutes=4), timedelta(minutes=9)
"""A visit is shown after a pause. One with several records is shown a second time after a long one, and only then it ends."""
REFUSED = "unnamed"
"""The name that a transform refuses until it is corrected."""
SEVERAL = 3
TOO_EXPENSIVE = 1_000
"""The price from which the processor refuses a record, after it has changed the value of the state in place."""
_EVERYBODY_EVERY = 7


def user_of(number: int) -> str:
    """Return the user who has sent the record with this number, which `faults.records` makes of incarnation, partition and offset.

    Three users have a partition each. Except in the first incarnation another one sends records to all partitions.
    """
    place, offset = divmod(number, 1_000_000)
    incarnation, partition = divmod(place, 100)
    if incarnation > 1 and offset % _EVERYBODY_EVERY == _EVERYBODY_EVERY - 1:
        return "everybody"
    return f"user {partition}/{offset % 3}"
