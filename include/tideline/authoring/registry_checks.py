"""Compare what is declared with the schemas of a registry: the newest of each topic, those that batches have used, and that of the output."""

from collections.abc import Iterator

import pyarrow as pa

from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline, shown
from tideline.domain.checks import Check, Verdict, listed
from tideline.domain.schemas import Part, Schema
from tideline.errors import FatalError
from tideline.formats.reader import ComparesSchemas
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.records.record_decoding import formats
from tideline.registry.client import RegistryClient
from tideline.sinks.kafka import encoding, written_schema


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


def checked_output(pipeline: Pipeline, produced: pa.Schema | None) -> Iterator[Check]:
    """Compare the columns of the rows with the schema that the topic of the pipeline is written with. Register nothing.

    Args:
        pipeline: The pipeline.
        produced: What the transform returns; None if only Spark knows.

    Raises:
        RetryableError: The registry does not answer.
        FatalError: It refuses the login, or is none; or a variable of it is not set.
    """
    sink = pipeline.sink
    if not isinstance(sink, KafkaSink) or not sink.needs_registry:
        return
    where = f"{shown(pipeline.folder / 'pipeline.yaml')}: sink.value"

    def finding(verdict: Verdict, found: str) -> Check:
        return Check(about=pipeline.name, check=where, verdict=verdict, found=found)

    try:
        own = written_schema.schema_of_file(pipeline)
    except FatalError:
        return  # it is reported already
    with written_schema.client(pipeline) as client:
        newest = client.newest(sink.subject)
        if own is not None:
            yield finding(*_own(client, sink, own, newest))
            return
    if newest is None:
        yield finding(Verdict.BAD, f"the registry has no subject {sink.subject}")
    elif produced is None:
        yield finding(
            Verdict.NOT_CHECKED, f"whether what `frame` returns fits schema {newest[0]}, the newest of {sink.subject}"
        )
    else:
        yield from (finding(*one) for one in _newest(pipeline, sink, newest, produced))


def _newest(
    pipeline: Pipeline, sink: KafkaSink, newest: tuple[int, Schema], produced: pa.Schema
) -> Iterator[tuple[Verdict, str]]:
    """Compare the columns with the newest schema of the subject."""
    what = f"schema {newest[0]}, the newest of {sink.subject}"
    try:
        problems = encoding.problems(sink, produced, written_schema.encoder(pipeline, newest[1], newest[0]))
    except FatalError as error:
        yield Verdict.BAD, error.problem
        return
    yield from ((Verdict.BAD, f"{what}: {one}") for one in problems)
    if not problems:
        yield Verdict.OK, f"{what}, fits"


def _own(
    client: RegistryClient, sink: KafkaSink, own: Schema, newest: tuple[int, Schema] | None
) -> tuple[Verdict, str]:
    """Say what the registry has to say to the schema of the pipeline's folder."""
    if (schema_id := None if newest is None else client.id_of(sink.subject, own)) is not None:
        return Verdict.OK, f"{sink.value.schema_file} is schema {schema_id} of {sink.subject}"
    if newest is not None and not client.is_compatible(sink.subject, own):
        return (
            Verdict.BAD,
            f"the registry refuses {sink.value.schema_file}: it is not compatible with the newest of {sink.subject}",
        )
    if sink.value.auto_register:
        return (
            Verdict.OK,
            f"{sink.value.schema_file} is not in the registry yet; the next load registers it as {sink.subject}",
        )
    return Verdict.BAD, f"{sink.value.schema_file} is not in the registry; register it, or declare auto_register: true"
