"""The types of the keys that Airflow uses as they are: schedule, owner, tags and pool."""

from typing import Annotated

from croniter import CroniterError, croniter  # type: ignore[import-untyped]  # it has no types
from pydantic import AfterValidator, Field

TAG_OF_EVERY_DAG = "tideline"
"""The tag of every DAG of Tideline. `tideline doctor` finds the DAGs by it."""

_CRON_FIELDS = 5  # minute, hour, day, month, weekday: croniter accepts seconds and years as well, Airflow does not
_TRIMMED = r"^\S(.*\S)?$"


def _cron(value: str) -> str:
    try:
        croniter(value).get_next()  # also refuses a time that never occurs, such as the 31st of February
        fits = len(value.split()) == _CRON_FIELDS
    except CroniterError:
        fits = False
    if not fits:
        raise ValueError(f"expected a cron expression of five fields, or null, found {value!r}")
    return value


def _different(tags: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(tags)) < len(tags) or TAG_OF_EVERY_DAG in tags:
        raise ValueError(
            f"expected each tag once, and not {TAG_OF_EVERY_DAG}, which every DAG has, found {', '.join(tags)}"
        )
    return tags


# The lengths are those of the columns of Airflow's database: one text more would keep the DAG from being stored.
Cron = Annotated[str, AfterValidator(_cron)]
Owner = Annotated[str, Field(pattern=_TRIMMED, max_length=500)]
Tag = Annotated[str, Field(pattern=_TRIMMED, max_length=100)]
Tags = Annotated[tuple[Tag, ...], Field(strict=False), AfterValidator(_different)]
Pool = Annotated[str, Field(pattern=_TRIMMED, max_length=256)]
