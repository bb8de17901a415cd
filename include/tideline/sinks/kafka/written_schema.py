"""Find the schema with which the values of a topic are written, in the pipeline's folder and in the registry, and what writes them.

Law: a value is written with a schema that its registry has. So the registry is asked in the driver, before anything is read: one that
does not answer fails the attempt, which is tried again.
"""

import pyarrow as pa

from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.mistakes import shown
from tideline.declaration.pipelines import Pipeline
from tideline.domain.schemas import Schema
from tideline.errors import FatalError
from tideline.formats import kinds
from tideline.formats.as_json import JsonObjects
from tideline.formats.confluent_frame import framed
from tideline.formats.encoder import Encoder
from tideline.registry.client import RegistryClient
from tideline.sinks.kafka import encoding
from tideline.sinks.kind import section

_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
"""What registries call the formats."""


def found(pipeline: Pipeline, produced: pa.Schema) -> Encoder:
    """Return what writes values of the pipeline's topic, with a schema that the registry has. Ask `encoding.problems` then.

    The schema of a file is registered, if the declaration says so and rows with these columns fit it: what is registered stays.

    Raises:
        RetryableError: The registry does not answer.
        FatalError: It refuses the login or the schema, has no such schema, or the declaration has none that can be read.
    """
    sink = section(pipeline, KafkaSink)
    if not sink.needs_registry:
        return JsonObjects()
    own = schema_of_file(pipeline)
    with client(pipeline) as registry:
        if own is None:
            schema_id, schema = newest(registry, pipeline)
            return encoder(pipeline, schema, schema_id)
        schema_id = registry.id_of(sink.subject, own) or 0
        if not schema_id and sink.value.auto_register:
            fitting = encoder(pipeline, own)
            if encoding.problems(sink, produced, fitting):
                return fitting
            schema_id = registry.register(sink.subject, own)
    if not schema_id:
        raise FatalError(
            f"{pipeline.name}: subject {sink.subject} of the registry has not the schema of {_file(pipeline)}",
            next_step="register it, or declare sink.value.auto_register: true",
            entry="output-topic-does-not-fit",
        )
    return encoder(pipeline, own, schema_id)


def client(pipeline: Pipeline) -> RegistryClient:
    """Return a session with the registry of the values.

    Raises:
        FatalError: A variable of the environment is not set, or holds no addresses.
    """
    registry = section(pipeline, KafkaSink).registered_at(pipeline.source)
    if registry is None:
        raise TypeError(
            f"{pipeline.name}: expected a registry for the values of the topic, which the declaration requires"
        )
    return RegistryClient(registry[1].access(pipeline.name, registry[0]))


def newest(registry: RegistryClient, pipeline: Pipeline) -> tuple[int, Schema]:
    """Return id and schema of the newest version of the subject.

    Raises:
        RetryableError: The registry does not answer.
        FatalError: It has no such subject, refuses the login, or is none.
    """
    sink = section(pipeline, KafkaSink)
    there = registry.newest(sink.subject)
    if there is None:
        raise FatalError(
            f"{pipeline.name}: the registry has no subject {sink.subject}, so {sink.output} cannot be written",
            next_step="register a schema, declare its sink.value.subject, or declare schema_file and auto_register: true",
            entry="output-topic-does-not-fit",
        )
    return there


def schema_of_file(pipeline: Pipeline) -> Schema | None:
    """Return the schema that the declaration names; None if that is the newest of the subject.

    Raises:
        FatalError: The file cannot be read.
    """
    value = section(pipeline, KafkaSink).value
    if value.schema_file is None:
        return None
    path = pipeline.folder / value.schema_file
    try:
        return Schema(kind=_KINDS[value.format], text=path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise FatalError(
            f"{shown(path)}: expected the schema that sink.value.schema_file names, found {said}",
            next_step="correct sink.value.schema_file, or the file",
            entry="output-topic-does-not-fit",
        ) from error


def encoder(pipeline: Pipeline, schema: Schema, schema_id: int = 0) -> Encoder:
    """Return what writes values with a schema.

    Args:
        pipeline: The pipeline.
        schema: The schema.
        schema_id: Its id in the registry; 0 to ask only whether columns fit.

    Raises:
        FatalError: It is of another kind, or none that can be read.
    """
    value = section(pipeline, KafkaSink).value
    if schema.kind != _KINDS[value.format]:
        raise _unwritable(pipeline, schema_id, f"expected one of the kind {_KINDS[value.format]}, found {schema.kind}")
    try:
        return kinds.encoder(value.format, schema, value.message, framed(schema_id))
    except ValueError as error:
        raise _unwritable(pipeline, schema_id, str(error)) from error


def _unwritable(pipeline: Pipeline, schema_id: int, why: str) -> FatalError:
    where = f"schema id {schema_id}" if schema_id else _file(pipeline)
    return FatalError(
        f"{pipeline.name}, {where}: no values can be written with this schema: {why}",
        next_step="correct sink.value; docs/sinks.md#values-with-a-schema says what can be written",
        entry="output-topic-does-not-fit",
    )


def _file(pipeline: Pipeline) -> str:
    return shown(pipeline.folder / (section(pipeline, KafkaSink).value.schema_file or ""))


def misfits(pipeline: Pipeline, produced: pa.Schema) -> list[str] | None:
    """Return why rows with these columns become no records; None if only the registry knows, because the declaration names no file.

    Raises:
        FatalError: The file cannot be read, or holds no schema that can be written.
    """
    sink, schema = section(pipeline, KafkaSink), schema_of_file(pipeline)
    if sink.needs_registry and schema is None:
        return None
    return encoding.problems(sink, produced, JsonObjects() if schema is None else encoder(pipeline, schema))
