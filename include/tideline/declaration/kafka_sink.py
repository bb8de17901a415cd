"""The section `sink` of a pipeline whose output is a Kafka topic."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.brokers import Brokers
from tideline.declaration.sections import ENV, Columns, FromEnvironment, Name, OutputSection, Text
from tideline.declaration.security import Security
from tideline.declaration.source import Source, Topic


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

    @property
    def output(self) -> str:
        """Return what people call the output, for messages."""
        return f"topic {self.topic}"

    @property
    def refuses_replays(self) -> bool:
        """See `OutputSection`. A topic cannot replace records: a replay would append them once more."""
        return self.replay == "refuse"

    def brokers(self, source: Source) -> Brokers:
        """Return the brokers of the topic: those that it names, else those of the source. A login of its own holds at either."""
        same = self.bootstrap_servers is None and "security" not in self.model_fields_set
        return Brokers(
            pipeline=source.brokers.pipeline,
            section="source" if same else "sink",
            bootstrap_servers=self.bootstrap_servers or source.bootstrap_servers,
            security=source.security if same else self.security,
        )
