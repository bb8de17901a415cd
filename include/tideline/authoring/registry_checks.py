"""Compare declared columns with the schemas of a registry: the newest of each topic, and those that batches have used."""

from collections.abc import Iterator

from tideline.declaration.pipelines import Pipeline, shown
from tideline.domain.checks import Check, Verdict, listed
from tideline.domain.schemas import Part, Schema
from tideline.formats.reader import ComparesSchemas
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.records.record_decoding import formats
from tideline.registry.client import RegistryClient


def checked(pipeline: Pipeline, reader: Ledger | None) -> Iterator[Check]:
    """Compare the parts of the records that have a frame with what the registry has, and with what batches have used.

    Subjects are those that Confluent's serializers choose by themselves: the topic with `-value` or `-key` behind it.

    Args:
        pipeline: The pipeline.
        reader: A session with the ledger; without it batches are not asked about.

    Raises:
        RetryableError: The registry does not answer.
        FatalError: It refuses the login, or is none; or a variable of it is not set.
    """
    registry = pipeline.source.registry
    if registry is None:
        return
    with RegistryClient(registry.access(pipeline.name)) as client:
        for part in _framed(pipeline):
            if pipeline.source.topics is None:
                where = f"source.{part} and the registry"
                found = "the newest schema: the topics are those that a pattern finds"
                yield Check(about=pipeline.name, check=where, verdict=Verdict.NOT_CHECKED, found=found)
            for topic in pipeline.source.topics or ():
                subject = f"{topic}-{part}"
                if (newest := client.newest(subject)) is None:
                    found = f"subject {subject} is not in the registry: its producers may name their subjects in another way"
                    yield Check(about=pipeline.name, check=subject, verdict=Verdict.NOT_CHECKED, found=found)
                else:
                    yield _compared(pipeline, part, newest[0], newest[1], f"the newest of {subject}")
    if reader is not None:
        for part, schema_id, schema in queries.used_schemas(reader, pipeline.name, registry.name):
            if part in _framed(pipeline):
                yield _compared(pipeline, part, schema_id, schema, "used by batches")


def _framed(pipeline: Pipeline) -> list[Part]:
    parts: list[Part] = ["value", "key"]
    return [one for one in parts if (section := getattr(pipeline.source, one)) is not None and section.frame != "none"]


def _compared(pipeline: Pipeline, part: Part, schema_id: int, schema: Schema, what: str) -> Check:
    where = f"{shown(pipeline.folder / 'pipeline.yaml')}: source.{part}"
    declared = formats(pipeline.source, pipeline.folder)
    format_: object = declared.value if part == "value" else declared.key
    if not isinstance(format_, ComparesSchemas):  # JSON is decoded by its columns, whatever its schema says
        return Check(
            about=pipeline.name, check=where, verdict=Verdict.OK, found=f"schema {schema_id}, {what}, is there"
        )
    found = format_.compared(schema)
    if found.reason:
        problem = f"schema {schema_id}, {what}: {found.reason}; its records become rejects"
        return Check(about=pipeline.name, check=where, verdict=Verdict.BAD, found=problem)
    notes = [f"schema {schema_id}, {what}, fits"]
    if found.undeclared:
        notes.append(f"not declared: {listed(found.undeclared, most=10)}")
    if found.absent:
        notes.append(f"null or the default, because it has not: {listed(found.absent, most=10)}")
    return Check(about=pipeline.name, check=where, verdict=Verdict.OK, found="; ".join(notes))
