"""The shape of one `pipeline.yaml`, as frozen values: which keys there are, their defaults, what each must be.

Never opens a file and never reads the environment, except where `Source.connection` is asked to. `tideline.pipelines`
makes these values and words the mistakes: each description below is what it says after "expected".
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from croniter import CroniterError, croniter  # type: ignore[import-untyped]  # it has no types
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from tideline import settings
from tideline.domain.columns import parse_type
from tideline.errors import FatalError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CRON_FIELDS = 5  # minute, hour, day, month, weekday: croniter takes seconds and years as well, Airflow does not
_ENV = "{env: NAME} with NAME in capitals"
_PEM = f"the path of a PEM file or {_ENV}"


def _uses(protocol: str, key: str) -> bool:
    """Whether `protocol` has a use for `key`: SASL_SSL for all, SASL_PLAINTEXT for sasl_ keys, SSL for ssl_ keys."""
    return key.partition("_")[0].upper() in protocol.split("_")


class Section(BaseModel):
    """A mapping in which unknown keys and values of another type are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FromEnvironment(Section):
    """`{env: NAME}`: a value that is looked up when it is needed, so that declarations can be read without it."""

    env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")]


def _cron(value: str) -> str:
    try:
        croniter(value).get_next()  # also refuses what never comes, such as the 31st of February
        fits = len(value.split()) == _CRON_FIELDS
    except CroniterError:
        fits = False
    if not fits:
        raise ValueError(f"expected a cron expression of five fields, or null, found {value!r}")
    return value


def _instant(value: object) -> object:
    """YAML's own timestamps lose their zone, so they arrive here as text."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _topics(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names) or not {".", ".."}.isdisjoint(names):
        raise ValueError(f"expected different Kafka topic names, found {', '.join(names)}")
    return names


def _column_type(name: str) -> str:
    parse_type(name)
    return name


Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Text = Annotated[str, Field(min_length=1)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
ColumnType = Annotated[str, AfterValidator(_column_type)]


class Security(Section):
    """How to connect to the brokers. What the protocol does not use may not be set."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | FromEnvironment = Field(
        default="PLAINTEXT", description=f"one of {', '.join(PROTOCOLS)}, or {_ENV}"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
    )
    sasl_username: Text | FromEnvironment | None = Field(default=None, description=f"text or {_ENV}")
    sasl_password: FromEnvironment | None = Field(default=None, description=_ENV)
    ssl_ca_location: Text | FromEnvironment | None = Field(default=None, description=_PEM)
    ssl_certificate_location: Text | FromEnvironment | None = Field(default=None, description=_PEM)
    ssl_key_location: Text | FromEnvironment | None = Field(default=None, description=_PEM)
    ssl_key_password: FromEnvironment | None = Field(default=None, description=_ENV)

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        """A password that no protocol uses, or a protocol without its password, shows up as a timeout otherwise."""
        declared = {key for key in type(self).model_fields if getattr(self, key) is not None}
        protocol = self.protocol if isinstance(self.protocol, str) else None
        if protocol:
            unused = sorted(key for key in declared - {"protocol"} if not _uses(protocol, key))
            if unused:
                raise ValueError(f"expected only what protocol {protocol} uses, found {', '.join(unused)}")
        sasl = {"sasl_mechanism", "sasl_username", "sasl_password"}
        if (declared & sasl or "SASL" in (protocol or "")) and not sasl <= declared:
            raise ValueError(
                f"expected {', '.join(sorted(sasl))} together, missing {', '.join(sorted(sasl - declared))}"
            )
        pair = {"ssl_certificate_location", "ssl_key_location"}
        if len(declared & pair) == 1:
            raise ValueError(f"expected {' and '.join(sorted(pair))} together, missing {(pair - declared).pop()}")
        return self


class Value(Section):
    """How the bytes of a record's value become columns."""

    format: Literal["json", "text", "bytes"] = Field(description="one of json, text, bytes")
    columns: Mapping[Text, ColumnType] = Field(default={}, description="column names with Spark SQL types")

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if "kafka" in self.columns:
            raise ValueError("expected another column name than kafka: topic, offset, key and headers stand under it")
        if (self.format == "json") != bool(self.columns):
            raise ValueError(f"expected columns with format json and only there, found format {self.format}")
        return self


class Source(Section):
    """Which records are read, and how they are decoded."""

    bootstrap_servers: Text | FromEnvironment = Field(description=f"host:port[,host:port...] or {_ENV}")
    topics: Annotated[tuple[Topic, ...], Field(strict=False, min_length=1), AfterValidator(_topics)] = Field(
        description="Kafka topic names, a list of at least one"
    )
    start: Annotated[Literal["earliest", "latest"] | AwareDatetime, BeforeValidator(_instant)] = Field(
        default="earliest", description="earliest, latest or an ISO timestamp with a zone"
    )
    """Where a stream begins that has never been seen."""
    gaps: Literal["refused", "allowed"] = Field(default="refused", description="refused or allowed")
    """Whether offsets may be missing in a topic that is not compacted, as transaction markers are."""
    security: Security = Security()
    value: Value
    _pipeline: str = PrivateAttr()

    @model_validator(mode="after")
    def _keep_the_name(self, info: ValidationInfo) -> Self:
        self._pipeline = str(info.context)
        return self

    def names(self, topic: str) -> bool:
        """Whether this is one of the topics to read."""
        return topic in self.topics

    def connection(self) -> dict[str, str]:
        """`bootstrap_servers` and the keys of `security` that its protocol uses, looked up; unset ones are left out.

        Raises:
            FatalError: A variable is not set, or holds an unknown protocol.
        """
        protocol = self._looked_up("security.protocol", self.security.protocol)
        if protocol not in PROTOCOLS:
            raise FatalError(
                f"pipeline {self._pipeline}, key source.security.protocol: "
                f"expected one of {', '.join(PROTOCOLS)}, found {protocol!r}",
                next_step="correct the environment variable that the key names",
            )
        values = {
            "bootstrap_servers": self._looked_up("bootstrap_servers", self.bootstrap_servers),
            "protocol": protocol,
        }
        for key in Security.model_fields:
            value = getattr(self.security, key)
            if value is not None and _uses(protocol, key):
                values[key] = self._looked_up(f"security.{key}", value)
        return values

    def _looked_up(self, key: str, value: str | FromEnvironment) -> str:
        if isinstance(value, str):
            return value
        return settings.required(value.env, f"source.{key} of pipeline {self._pipeline}")


class Sink(Section):
    """Where the rows go."""

    table: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$")] = Field(
        description="schema.table in lower case"
    )
    item: Name | None = Field(default=None, description="a column name in lower case")
    """The column that tells the rows of one record apart, where a record becomes several."""


class Limits(Section):
    """How much one batch and one run may hold."""

    batch_records: Annotated[int, Field(gt=0)] = Field(default=1_000_000, description="an integer above 0")
    run_batches: Annotated[int, Field(gt=0)] = Field(default=20, description="an integer above 0")


class Rejects(Section):
    """When rejected records fail a batch."""

    fail_above: Annotated[float, Field(ge=0, le=1)] = Field(default=0.5, description="a number from 0 to 1")
    """Fraction of a batch's records; counted once 100 of them are rejected."""


class Declaration(Section):
    """All that `pipeline.yaml` says."""

    description: Text = Field(description="text")
    schedule: Annotated[str, AfterValidator(_cron)] | None = Field(
        default="0 * * * *", description="a cron expression of five fields (UTC), or null for only by hand"
    )
    retries: Annotated[int, Field(ge=0)] = Field(default=2, description="an integer, 0 or above")
    """Of each task."""
    retry_delay_seconds: Annotated[int, Field(ge=0)] = Field(default=60, description="an integer, 0 or above")
    source: Source
    sink: Sink
    limits: Limits = Limits()
    rejects: Rejects = Rejects()


class Pipeline(Declaration):
    """A declaration with the name of its folder."""

    name: str
    folder: Path
