"""The declared pipelines: one folder each, with `pipeline.yaml`, `target.sql` and, optionally, `transform.py`.

Owns finding and reading them, and the messages about their mistakes. Connects to no broker and no database, and imports
nothing heavy: the DAG files call it each time Airflow parses them. So do the CLI, the planner and the Spark driver.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tideline import settings
from tideline.declaration import Declaration, Notify, Pipeline, Section
from tideline.declaration.mistakes import at, shown, worded
from tideline.declaration.sink import kind_of
from tideline.errors import FatalError, UnknownPipelineError

__all__ = ["Broken", "Pipeline", "check_undeclared", "declared", "load", "load_named", "name_mistake", "shown"]

_LEGAL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# Names of Tideline's own DAGs, and names that Airflow refuses for an asset.
_TAKEN = ("context", "replay", "self", "upkeep")
_NEXT_STEP = "correct the declaration; docs/pipelines.md explains every key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A pipeline whose declaration has mistakes. It is an item of the list, not an exception, so that the other pipelines keep running."""

    name: str
    error: FatalError
    notify: Notify = field(default_factory=Notify)
    """As declared, if the mistakes are elsewhere: a run that fails because of them is a failed run."""


def declared(*, chosen: Callable[[str], bool] = lambda _: True) -> list[Pipeline | Broken]:
    """Return every pipeline whose folder's name is `chosen`, in order of name. Names that begin with `.` or `_` are skipped."""
    return [_load_or_broken(folder) for folder in _folders() if chosen(folder.name)]


def load_named(name: str) -> Pipeline:
    """Return the pipeline of that name.

    Raises:
        UnknownPipelineError: No folder has that name.
        FatalError: Its declaration has mistakes.
    """
    for folder in _folders():
        if folder.name == name:
            return load(folder)
    known = ", ".join(folder.name for folder in _folders()) or "none"
    raise UnknownPipelineError(
        f"{shown(settings.pipelines_dir())}: expected a folder for pipeline {name!r}, found only: {known}",
        next_step="correct the name, or add the folder",
        entry="no-such-pipeline",
    )


def check_undeclared(name: str) -> None:
    """Check that no folder declares a pipeline of this name, also none with mistakes.

    Raises:
        FatalError: A folder does.
    """
    for folder in _folders():
        if folder.name == name:
            raise FatalError(
                f"{name}: expected a pipeline that no folder declares, found {shown(folder)}",
                next_step="remove the folder first, also where other machines have it; or pause its DAG instead",
                entry="pipeline-does-not-retire",
            )


def load(folder: Path) -> Pipeline:
    """Return the pipeline that `folder` declares.

    Raises:
        FatalError: The declaration has mistakes. The message names all of them, each with file, line and key.
    """
    path = folder / "pipeline.yaml"
    mistakes = []
    if mistake := name_mistake(folder.name):
        mistakes.append(f"{shown(folder)}: {mistake}")
    try:
        raw = _parse(path)
        if kind_of(raw.get("sink") if isinstance(raw, dict) else None) == "postgres":
            mistakes += _without_table(folder)
        declaration = Declaration.model_validate(raw, context=folder.name)
    except ValidationError as error:
        mistakes += worded(path, raw, error)
    except FatalError as error:
        mistakes.append(error.problem)
    if mistakes:
        raise _mistake("\n".join(mistakes))
    return Pipeline.model_construct(name=folder.name, folder=folder, **dict(declaration))


def _without_table(folder: Path) -> list[str]:
    if (folder / "target.sql").is_file():
        return []
    return [f"{shown(folder)}: expected a file target.sql with the table's definition, found none"]


def name_mistake(name: str) -> str | None:
    """Return why a folder of this name declares no pipeline, or None if it may."""
    if not _LEGAL_NAME.fullmatch(name):
        return f"expected a folder name like {_LEGAL_NAME.pattern}, found {name!r}"
    return f"expected another folder name than {', '.join(_TAKEN)}: these are taken" if name in _TAKEN else None


def _load_or_broken(folder: Path) -> Pipeline | Broken:
    try:
        return load(folder)
    except FatalError as error:
        return Broken(name=folder.name, error=error, notify=_notify_alone(folder))


def _notify_alone(folder: Path) -> Notify:
    """Return the section `notify` of a declaration with mistakes, without a notifier if the mistakes are in this section."""
    try:
        return Notify.model_validate(_parse(folder / "pipeline.yaml")["notify"])
    except (FatalError, LookupError, TypeError, ValidationError):
        return Notify()


def _folders() -> list[Path]:
    try:
        found = settings.pipelines_dir().iterdir()
        return sorted(path for path in found if path.is_dir() and path.name[0] not in "._")
    except OSError as error:
        raise FatalError(
            f"{settings.pipelines_dir()}: expected the folder of the pipelines, found {error.strerror}",
            next_step="create it, or point TIDELINE_PIPELINES at it",
            entry="no-such-pipeline",
        ) from error


class _Constructor(RoundTripConstructor):
    """Keeps timestamps as text: parsed by YAML they would lose their zone."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", _Constructor.construct_yaml_str)


def _parse(path: Path) -> Any:
    """Return the contents of the file as mappings and lists that know their lines.

    Raises:
        FatalError: The file cannot be read, or is not YAML. The message quotes no text of it, which may be a misplaced
            secret.
    """
    yaml = YAML()
    yaml.Constructor = _Constructor
    try:
        return yaml.load(path.read_text("utf-8"))
    except OSError as error:
        raise _mistake(f"{shown(path)}: expected the pipeline's declaration, found {error.strerror}") from error
    except DuplicateKeyError as error:
        key = re.match(r'found duplicate key "(\w+)"', error.problem)
        known = key and key[1] in _keys(Declaration)
        raise _mistake(
            f"{at(path, error.problem_mark.line)}: {key[1] if key and known else 'a key'}: the same key twice"
        ) from None
    except MarkedYAMLError as error:
        raise _mistake(f"{at(path, error.problem_mark.line)}: not YAML: {_unquoted(error.problem)}") from None
    except (YAMLError, ValueError):
        raise _mistake(f"{shown(path)}: not YAML in UTF-8") from None


def _mistake(problem: str) -> FatalError:
    return FatalError(problem, next_step=_NEXT_STEP, entry="declaration")


def _unquoted(problem: str) -> str:
    """Replace all text from the first quotation mark to the last one, because quoted text may itself hold quotation marks."""
    return re.sub(r"['\"].*['\"]", "…", problem, flags=re.DOTALL)


def _keys(section: type[Section]) -> set[str]:
    """Return all keys of a section and of the sections in it."""
    below = (field.annotation for field in section.model_fields.values())
    return {*section.model_fields}.union(
        *(_keys(one) for one in below if isinstance(one, type) and issubclass(one, Section))
    )
