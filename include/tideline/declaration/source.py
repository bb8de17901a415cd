"""The section `source`: which records are read, and how their bytes become columns."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from tideline.declaration.brokers import Brokers
from tideline.declaration.registry import Registry
from tideline.declaration.sections import ENV, FromEnvironment, MistakeBelow, Section, Text
from tideline.declaration.security import Security
from tideline.domain.columns import parse_type

_PATTERN = "a Python regular expression from ^ to $, such as ^ads_.*$"


def _instant(value: object) -> object:
    """Parse an ISO timestamp. It is text here because a timestamp that YAML parses loses its zone."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names) or not {".", ".."}.isdisjoint(names):
        raise ValueError(f"expected different Kafka topic names, found {', '.join(names)}")
    return names


def _regular(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected {_PATTERN}, found {pattern!r}: {error}") from error
    if pattern.endswith(r"\$"):
        raise ValueError(f"expected {_PATTERN}, found {pattern!r}: \\$ is a dollar sign and not the end")
    return pattern


def _column_type(name: str) -> str:
    parse_type(name)
    return name


FormatName = Literal["json", "text", "bytes", "avro", "protobuf", "debezium"]
_FORMATS = "one of json, text, bytes, avro, protobuf, debezium"
_WITH_COLUMNS = ("json", "avro", "protobuf", "debezium")
_SCHEMA_FILES = {"avro": (".avsc",), "protobuf": (".desc", ".proto")}
"""How the names of files with a schema end, by the format that needs one."""
SchemaFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(avsc|desc|proto)$")]
MessageName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=500)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Topics = Annotated[tuple[Topic, ...], Field(strict=False, min_length=1), AfterValidator(_different)]
# Anchors are required, so that no pattern fits more topics than its author expects.
TopicPattern = Annotated[str, Field(pattern=r"^\^.*\$$"), AfterValidator(_regular)]
ColumnType = Annotated[str, AfterValidator(_column_type)]
Fields = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]


EnvelopePath = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)]


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


class _Decoded(Section):
    """How bytes are decoded into columns."""

    format: FormatName
    columns: Mapping[Text, ColumnType] = Field(
        default={},
        title="The fields of a JSON object, an Avro record or a Protobuf message that become columns; other fields are ignored",
        description="column names with Spark SQL types",
    )
    schema_file: SchemaFile | None = Field(
        default=None,
        title="For avro and protobuf without a frame: the file beside pipeline.yaml that holds the schema with which all records were written",
        description="the name of a file such as order.avsc, order.desc or order.proto",
    )
    message: MessageName | None = Field(
        default=None,
        title="For protobuf: the full name of the message that each record is",
        description="the name of a message such as shop.Order",
    )
    frame: Literal["none", "confluent"] = Field(
        default="none",
        title="What stands before each record: nothing, or a zero byte and the id of its schema in source.registry",
        description="none or confluent",
    )
    aliases: Mapping[Text, Fields] = Field(
        default={},
        title="For avro and protobuf: other names that the fields of columns have in some schemas; the first that is there is read",
        description="columns with lists of field names",
    )
    defaults: Mapping[Text, Any] = Field(
        default={},
        title="For avro and protobuf: the values of columns that the schema of a record has not, which are null otherwise",
        description="columns with values as JSON has them",
    )

    unknown: Literal["count", "keep", "reject"] = Field(
        default="count",
        title="What becomes of a field that no column takes: it is named and read over, or also kept in unknown_column; or the record is a reject",
        description="count, keep or reject",
    )
    unknown_column: Text = Field(
        default="unknown_fields",
        title="The column that holds the fields that no other takes, as one JSON object, with unknown: keep",
        description="a column name",
    )

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if "kafka" in self.columns:
            raise ValueError("expected another column name than kafka: topic, offset, key and headers stand under it")
        if (self.format in _WITH_COLUMNS) != bool(self.columns):
            raise ValueError(
                f"expected columns with format json, avro, protobuf or debezium and only there, found format {self.format}"
            )
        self._check_schema()
        self._check_reader()
        self._check_unknown()
        return self

    def _check_unknown(self) -> None:
        """Refuse a section whose undeclared fields cannot be found, or not be kept."""
        if self.unknown != "count" and not self.columns:
            raise ValueError(
                f"expected unknown: {self.unknown} with format json, avro, protobuf or debezium only, found format {self.format}"
            )
        if self.unknown == "keep" and self.unknown_column in self.columns:
            raise MistakeBelow(
                ("unknown_column",), f"expected another name than those of columns, found {self.unknown_column}"
            )

    def _check_schema(self) -> None:
        """Refuse a section that does not say where the schemas of its records are, or says it of records without any."""
        is_framed, has_file = self.frame != "none", self.schema_file is not None
        if is_framed and self.format not in _WITH_COLUMNS:
            raise ValueError(
                f"expected frame: confluent with format json, avro, protobuf or debezium only, found format {self.format}"
            )
        if has_file and not self.has_schema:
            raise ValueError(f"expected schema_file with format avro or protobuf only, found format {self.format}")
        if self.has_schema and is_framed == has_file:
            found = "both" if has_file else "neither"
            raise ValueError(
                f"expected either schema_file or frame: confluent with format {self.format}, found {found}"
            )
        if self.schema_file is not None and not self.schema_file.endswith(ends := _SCHEMA_FILES[self.format]):
            raise MistakeBelow(
                ("schema_file",), f"expected a file that ends with {' or '.join(ends)} with format {self.format}"
            )
        if (self.format == "protobuf") != (self.message is not None):
            raise ValueError(f"expected message with format protobuf and only there, found format {self.format}")

    def _check_reader(self) -> None:
        """Refuse aliases and defaults of what is no column, and one field that would fill two columns."""
        if not self.has_schema and (self.aliases or self.defaults):
            raise ValueError(
                f"expected aliases and defaults with format avro or protobuf only, found format {self.format}"
            )
        for key in ("aliases", "defaults"):
            if other := sorted({*getattr(self, key)} - {*self.columns}):
                raise MistakeBelow((key,), f"expected declared columns, found {', '.join(other)}")
        fields = [*self.columns, *(other for others in self.aliases.values() for other in others)]
        if twice := sorted({name for name in fields if fields.count(name) > 1}):
            raise MistakeBelow(("aliases",), f"expected each field for one column, found {', '.join(twice)} for two")

    @property
    def has_schema(self) -> bool:
        """Return whether records can be read only with the schema that they were written with."""
        return self.format in _SCHEMA_FILES

    @property
    def is_binary(self) -> bool:
        """Return whether the bytes are no text, so that a file with one record in each line has them in base64."""
        return self.has_schema or self.frame != "none"

    @property
    def described(self) -> str:
        """Return the format, and where the schemas of records are, for people."""
        if self.frame != "none":
            return f"{self.format} with the schemas of a registry"
        return f"{self.format} with the schema of {self.schema_file}" if self.schema_file else self.format

    @property
    def rest(self) -> str | None:
        """Return the column that holds the fields that no other takes; None without one."""
        return self.unknown_column if self.unknown == "keep" else None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that the bytes become. Text and bytes become one column, named after the section."""
        found = tuple(self.columns) or (type(self).__name__.lower(),)
        return found if self.rest is None else (*found, self.rest)


class Value(_Decoded):
    """How the bytes of a record's value are decoded into columns."""

    format: FormatName = Field(title="The format of a value's bytes", description=_FORMATS)
    envelope: Mapping[EnvelopePath, ColumnType] = Field(
        default={},
        title="For debezium: what stands beside the row and becomes a column, such as source.lsn, which becomes source_lsn",
        description="paths such as op, ts_ms or source.lsn with Spark SQL types",
    )

    @model_validator(mode="after")
    def _envelope_fits(self) -> Self:
        if self.envelope and self.format != "debezium":
            raise ValueError(f"expected envelope with format debezium only, found format {self.format}")
        if both := sorted({*self.beside} & {*self.columns}) or _twice(self.beside):
            raise MistakeBelow(("envelope",), f"expected each column once, found {', '.join(both)} twice")
        return self

    @property
    def beside(self) -> tuple[str, ...]:
        """Return the columns of what stands beside the rows, which deletions have too."""
        return tuple(path.replace(".", "_") for path in self.envelope)

    @property
    def names(self) -> tuple[str, ...]:
        """See `_Decoded`."""
        return (*super().names, *self.beside)


class Key(_Decoded):
    """How the bytes of a record's key are decoded into columns."""

    format: FormatName = Field(
        title="The format of a key's bytes; text and bytes give one column `key`", description=_FORMATS
    )


class Source(Section):
    """Which records are read, and how they are decoded."""

    # With this an editor reports at once what `_one_of_both` refuses when the file is read.
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["topics"]}, {"required": ["topic_pattern"]}]})

    bootstrap_servers: Text | FromEnvironment = Field(
        title="The addresses of the brokers", description=f"host:port[,host:port...] or {ENV}"
    )
    topics: Topics | None = Field(
        default=None,
        title="The topics to read; declare either this key or topic_pattern",
        description="Kafka topic names, a list of at least one",
    )
    topic_pattern: TopicPattern | None = Field(
        default=None, title="Read every topic whose name fits, also topics that are created later", description=_PATTERN
    )
    start: Annotated[Literal["earliest", "latest"] | AwareDatetime, BeforeValidator(_instant)] = Field(
        default="earliest",
        title="The start of a stream that the ledger does not know yet",
        description="earliest, latest or an ISO timestamp with a zone",
    )
    delivery: Literal["exactly_once", "latest_wins"] = Field(
        default="exactly_once",
        title="Whether every record is loaded once, or each run jumps to the newest records and stores which offsets it skipped",
        description="exactly_once or latest_wins",
    )
    gaps: Literal["refused", "allowed"] = Field(
        default="refused",
        title="Whether a topic that is not compacted may have gaps, such as transaction markers",
        description="refused or allowed",
    )
    security: Security = Security()
    registry: Registry | None = None
    value: Value
    key: Key | None = None
    tombstones: Literal["reject", "keep", "delete"] = Field(
        default="reject",
        title="What becomes of a record without a value: a reject, a row whose columns of the value are null, or a deletion of the row with its key",
        description="one of reject, keep, delete",
    )
    _pipeline: str = PrivateAttr()

    @model_validator(mode="after")
    def _keep_the_name(self, info: ValidationInfo) -> Self:
        self._pipeline = str(info.context)
        return self

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.topics is None) == (self.topic_pattern is None):
            found = "neither" if self.topics is None else "both"
            raise ValueError(f"expected either topics or topic_pattern, found {found}")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if self.key is not None and (twice := sorted({*self.key.names} & {*self.value.names})):
            raise MistakeBelow(
                ("key",), f"expected other column names than those of source.value, found {', '.join(twice)} in both"
            )
        return self

    @model_validator(mode="after")
    def _registry_is_used(self) -> Self:
        framed = [
            name for name in ("key", "value") if (part := getattr(self, name)) is not None and part.frame != "none"
        ]
        if bool(framed) != (self.registry is not None):
            found = (
                f"frame: confluent in {' and '.join(framed)} without it"
                if framed
                else "a registry that no frame refers to"
            )
            raise ValueError(f"expected source.registry with frame: confluent and only then, found {found}")
        return self

    @property
    def described(self) -> str:
        """Return the formats of values and keys, for people."""
        return f"values: {self.value.described}" + ("" if self.key is None else f"; keys: {self.key.described}")

    def names(self, topic: str) -> bool:
        """Return whether `topic` is one of the topics to read. A pattern never fits Kafka's internal topics, which begin with `__`."""
        if self.topic_pattern is None:
            return topic in (self.topics or ())
        return not topic.startswith("__") and re.fullmatch(self.topic_pattern, topic) is not None

    @property
    def brokers(self) -> Brokers:
        """Return the brokers of the topics."""
        return Brokers(
            pipeline=self._pipeline,
            section="source",
            bootstrap_servers=self.bootstrap_servers,
            security=self.security,
        )
