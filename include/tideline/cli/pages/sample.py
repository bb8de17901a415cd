"""Builds the page of the newest records as a pipeline would load them, or prints their values."""

import re
import sys
from dataclasses import replace

from tideline.authoring import sample as samples
from tideline.authoring.looking import SECONDS, look
from tideline.authoring.trial import Place
from tideline.cli.output import Page
from tideline.cli.pages import trial
from tideline.declaration import pipelines


def sample(name: str, count: int) -> Page:
    """Decode and transform the newest records of a pipeline's topics.

    Raises:
        FatalError: The declaration, the transform or a topic is wrong.
        RetryableError: The brokers did not answer.
    """
    pipeline = pipelines.load_named(name)
    records = look(pipeline.source, count, seconds=SECONDS).records
    places = [Place(one.topic, one.partition, one.offset) for one in records]
    page = trial.of_records(pipeline, samples.of_records(records), places=places)
    return page if records else replace(page, parts=[f"{name}: its topics have no records"])


def print_values(name: str, count: int) -> None:
    """Print the values of the newest records, one per line, byte for byte except for line feeds, which become spaces.

    Tombstones have no value. They are left out, and their number is printed to stderr.

    Raises:
        FatalError: The declaration or a topic is wrong.
        RetryableError: The brokers did not answer.
    """
    values = [one.value for one in look(pipelines.load_named(name).source, count, seconds=SECONDS).records]
    there = [value for value in values if value is not None]
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(re.sub(rb"[\r\n]+", b" ", value) + b"\n" for value in there))
    if len(there) < len(values):
        print(f"tideline: {len(values) - len(there)} tombstones are left out: they have no value", file=sys.stderr)
