"""The section `sink` of a pipeline whose output is a Kafka topic."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.brokers import Brokers
from tideline.declaration.registry import Registry
from tideline.declaration.sections import (
    ENV,
    Columns,
    FromEnvironment,
    MistakeBelow,
    Name,
    OutputSection,
    Section,
    Text,
)
from tideline.declaration.security import Security
from tideline.declaration.source import MessageName, SchemaFile, Source, Topic

_SCHEMA_FILES = {"avro": ".avsc", "protobuf": ".proto"}
"""How the names of files end that a registry takes, by format."""


class WrittenValue(Section):
    """How columns become the value of an output record."""

    format: Literal["json", "avro", "protobuf"] = Field(
        default="json",
        title="What a value is: a JSON object, or an Avro record or a Protobuf message behind the id of its schema",
        description="json, avro or protobuf",
    )
    subject: Text | None = Field(
        default=None,
        title="The subject of the schema in the registry; without it TOPIC-value",
        description="the name of a subject",
    )
    schema_file: SchemaFile | None = Field(
        default=None,
        title="The file beside pipeline.yaml with the schema to write; without it the newest of the subject",
        description="the name of a file such as order.avsc or order.proto",
    )
    message: MessageName | None = Field(
        default=None,
        title="For protobuf: the full name of the message that each value is",
        description="the name of a message such as shop.Order",
    )
    auto_register: bool = Field(
        default=False,
        title="Whether a load registers the schema of schema_file if the subject has it not; without it the load fails",
        description="true or false",
    )

    @model_validator(mode="after")
    def _schema_fits(self) -> Self:
        if self.format == "json" and (given := sorted(self.model_fields_set - {"format"})):
            raise ValueError(f"expected {given[0]} with format avro or protobuf only, found format json")
        if (self.format == "protobuf") != (self.message is not None):
            raise ValueError(f"expected message with format protobuf and only there, found format {self.format}")
        if self.schema_file is not None and not self.schema_file.endswith(end := _SCHEMA_FILES[self.format]):
            raise MistakeBelow(("schema_file",), f"expected a file that ends with {end} with format {self.format}")
        if self.auto_register and self.schema_file is None:
            raise ValueError("expected schema_file with auto_register: true: there is nothing to register without it")
        return self


class KafkaSink(OutputSection):
    """A topic, on the brokers of the source or on others."""

    kind: Literal["kafka"] = Field(title="What the rows are written to", description="one of postgres, kafka, delta")
    topic: Topic = Field(title="The output topic; it must exist", description="a Kafka topic name")
    bootstrap_servers: Text | FromEnvironment | None = Field(
        default=None,
        title="The addresses of the topic's brokers, if they are others than those of the source",
        description=f"host:port[,host:port...] or {ENV}",
    )
    security: Security = Security()
    key: Columns = Field(
        default=(),
        title="The columns that become the key of an output record; without any it has none",
        description="a list of different column names",
    )
    headers: Columns = Field(
        default=(), title="The columns that become headers", description="a list of different column names"
    )
    value: WrittenValue = WrittenValue()
    registry: Registry | None = None
    item: Name | None = Field(
        default=None,
        title="The column that orders the rows of one record, where a record can become several rows",
        description="a column name in lower case",
    )
    shared: bool = Field(
        default=False,
        title="Whether other pipelines write this topic too; each of them must set this key",
        description="true or false",
    )
    replay: Literal["refuse", "append"] = Field(
        default="refuse",
        title="Whether a replay is refused, or appends the rows once more: a topic cannot replace any",
        description="refuse or append",
    )
    transaction_seconds: Annotated[int, Field(ge=10, le=3600)] = Field(
        default=300,
        title="The time in seconds after which the brokers abort the transaction of a batch",
        description="an integer from 10 to 3600",
    )

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        twice = sorted({*self.key} & {*self.headers})
        if twice:
            raise ValueError(f"expected other columns in headers than in key, found {', '.join(twice)} in both")
        return self

    @model_validator(mode="after")
    def _registry_is_used(self) -> Self:
        if self.registry is not None and not self.needs_registry:
            raise MistakeBelow(("registry",), "expected it with value.format avro or protobuf only, found format json")
        return self

    @property
    def output(self) -> str:
        """Return what people call the output, for messages."""
        return f"topic {self.topic}"

    @property
    def described(self) -> str:
        """See `OutputSection`."""
        return f"{self.output} in {self.value.format}"

    @property
    def refuses_replays(self) -> bool:
        """See `OutputSection`. A topic cannot replace records: a replay would append them once more."""
        return self.replay == "refuse"

    @property
    def needs_registry(self) -> bool:
        """Return whether values stand behind the id of a schema."""
        return self.value.format != "json"

    @property
    def subject(self) -> str:
        """Return the subject of the schema of values."""
        return self.value.subject or f"{self.topic}-value"

    def registered_at(self, source: Source) -> tuple[str, Registry] | None:
        """Return the section that declares the registry of the values, and the registry: its own, else that of the source; None without any."""
        if self.registry is not None:
            return "sink", self.registry
        return None if source.registry is None else ("source", source.registry)

    def brokers(self, source: Source) -> Brokers:
        """Return the brokers of the topic: those that it names, else those of the source. A login of its own holds at either."""
        same = self.bootstrap_servers is None and "security" not in self.model_fields_set
        return Brokers(
            pipeline=source.brokers.pipeline,
            section="source" if same else "sink",
            bootstrap_servers=self.bootstrap_servers or source.bootstrap_servers,
            security=source.security if same else self.security,
        )
