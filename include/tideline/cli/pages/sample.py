"""Builds the page of the newest records as a pipeline would load them, or prints their values."""

import re
import sys
from dataclasses import replace

from tideline.authoring import sample as samples
from tideline.authoring.looking import SECONDS, look
from tideline.authoring.trial import Origin
from tideline.cli.output import Page, safe
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
    places = [Origin(one.topic, one.partition, one.offset) for one in records]
    page = trial.of_records(pipeline, samples.of_records(records), places=places)
    return page if records else replace(page, parts=[f"{name}: its topics have no records"])


def print_values(name: str, count: int) -> None:
    """Print the values of the newest records, one per line, byte for byte except for line feeds, which become spaces.

    On a terminal, control characters are shown as escapes: bytes of a record must not control it.

    If the pipeline decodes keys, each line begins with the key and a tab, and nothing follows the key of a tombstone.
    Else tombstones are left out, and their number is printed to stderr.

    Raises:
        FatalError: The declaration or a topic is wrong.
        RetryableError: The brokers did not answer.
    """
    source = pipelines.load_named(name).source
    records = look(source, count, seconds=SECONDS).records
    if source.key is not None:
        lines = [b"\t".join(_on_one_line(part or b"", rb"[\r\n\t]+") for part in (r.key, r.value)) for r in records]
    else:
        lines = [_on_one_line(one.value, rb"[\r\n]+") for one in records if one.value is not None]
    if sys.stdout.isatty():
        print("".join(f"{safe(line.decode(errors='backslashreplace'))}\n" for line in lines), end="")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
    if len(lines) < len(records):
        print(f"tideline: {len(records) - len(lines)} tombstones are left out: they have no value", file=sys.stderr)


def _on_one_line(part: bytes, breaks: bytes) -> bytes:
    return re.sub(breaks, b" ", part)
