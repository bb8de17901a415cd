"""Make the folder of a new pipeline from the newest records of its topic. `tideline new` calls it."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tideline import settings
from tideline.authoring import sample, scaffold, source_options
from tideline.authoring.doubts import Doubt
from tideline.authoring.scaffold import SourceConnection
from tideline.authoring.survey import TopicSurvey, survey, unseen
from tideline.authoring.trial import tried
from tideline.declaration import PostgresSink, Source, pipelines
from tideline.domain.schemas import Schemas
from tideline.errors import FatalError
from tideline.kafka.newest_records import newest_of
from tideline.registry.sample_schemas import AskedSchemas

_SCHEMA = "pipeline.schema.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the author has chosen."""

    name: str
    topic: str
    servers: str | None
    """`host:port,...`, or `env:NAME` for the value of a variable."""
    security: Mapping[str, str]
    """Keys of `source.security`, with values as above."""
    registry: Mapping[str, str]
    """Keys of `source.registry`, with values as above; none if values have no frame."""
    like: str | None
    """The pipeline whose brokers, security and registry to take instead."""
    table: str
    count: int
    """The most records to look at; 0: none, and no broker is asked."""
    values: bool
    """Whether the sample of the test holds real records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new pipeline."""

    folder: Path
    files: tuple[str, ...]
    sample: Path
    seen: TopicSurvey
    doubts: tuple[Doubt, ...]


def make(options: Options) -> Made:
    """Look at records and write the folder. It appears whole or not at all.

    Raises:
        FatalError: The name, an option or the topic is wrong, the folder exists, or the topic has no records.
        RetryableError: The brokers did not answer.
    """
    folder = _free_folder(options.name)
    source = _source(options)
    seen = unseen(options.topic)
    if options.count:
        newest = newest_of(source, options.count)
        if not newest.records:
            raise FatalError(
                f"topic {options.topic}: expected records to look at, found none",
                next_step="produce some and run again; or add --empty to write a folder that you fill in",
                entry="new-pipeline",
            )
        seen = survey(options.topic, newest, _schemas(options.name, source))
    connection = SourceConnection(
        servers=source.bootstrap_servers,
        security=scaffold.as_settings(source.security),
        registry=scaffold.as_settings(source.registry) if source.registry else {},
    )
    try:
        with tempfile.TemporaryDirectory(prefix=f".{options.name}.", dir=folder.parent) as parent:
            draft = Path(parent) / options.name
            draft.mkdir()
            schema = f"../{_SCHEMA}" if (folder.parent / _SCHEMA).is_file() else None
            files = scaffold.write(
                draft, seen, connection=connection, table=options.table, schema=schema, values=options.values
            )
            doubts = (*seen.doubts, *_tried(draft, seen))
            draft.rename(folder)
    except OSError as error:
        raise FatalError(
            f"{folder}: expected to write it, found: {error.strerror}",
            next_step="correct the permissions, or point TIDELINE_PIPELINES at another folder",
            entry="new-pipeline",
        ) from error
    return Made(folder=folder, files=tuple(files), sample=folder / files[-1], seen=seen, doubts=doubts)


def _source(options: Options) -> Source:
    """Return the source to look at.

    Raises:
        FatalError: An option is wrong.
    """
    source = source_options.source(
        options.name,
        options.topic,
        servers=options.servers,
        security=options.security,
        registry=options.registry,
        like=options.like,
    )
    if source.registry and not (options.count and options.values):
        raise FatalError(
            f"options of pipeline {options.name}: with a schema registry records are looked at, and the sample holds some of them",
            next_step="leave out --empty and --no-values: records for the sample can be invented in JSON and text only",
            entry="new-pipeline",
        )
    source_options.checked(PostgresSink, {"table": options.table}, options.name)
    return source


def _schemas(name: str, source: Source) -> Schemas | None:
    return None if source.registry is None else AskedSchemas(source.registry.access(name))


def _free_folder(name: str) -> Path:
    """Return the path of the folder to write."""
    folder = settings.pipelines_dir() / name
    if mistake := pipelines.name_mistake(name):
        raise FatalError(mistake, next_step="choose another name", entry="new-pipeline")
    if not folder.parent.is_dir():
        raise FatalError(
            f"{folder.parent}: expected the folder of the pipelines, found none",
            next_step="create it, or point TIDELINE_PIPELINES at it",
            entry="no-such-pipeline",
        )
    if folder.exists():
        raise FatalError(
            f"{folder}: expected no such folder, found one",
            next_step="choose another name, or delete the folder",
            entry="new-pipeline",
        )
    return folder


def _tried(draft: Path, seen: TopicSurvey) -> list[Doubt]:
    """Load the draft, decode and transform the good records with it, and return a doubt if one of them is rejected."""
    pipeline = pipelines.load(draft)
    rejects = tried(pipeline, sample.of_values(pipeline, seen.good)).rejects
    if not rejects:
        return []
    # The values were decoded before, so only keys can fail to be.
    where = "source.key" if rejects[0].step == "decode" else "transform.py"
    reason = f"{len(rejects):,} records fail in {where}: {rejects[0].reason}"
    return [Doubt("records", reason, "they become rejects", f"Correct {where}")]
