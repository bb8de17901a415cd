"""The source of a new pipeline, from the options of a command. A message about a mistake names the option."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tideline.declaration import PostgresSink, Source, pipelines
from tideline.declaration.registry import Registry
from tideline.declaration.security import Security
from tideline.errors import FatalError

Model = TypeVar("Model", bound=BaseModel)

_FIELDS = {
    **PostgresSink.model_fields,
    **Registry.model_fields,
    **Source.model_fields,
    **Security.model_fields,
}
_OPTIONS = {
    "topics": "--topic",
    "bootstrap_servers": "--bootstrap-servers",
    "table": "--table",
    "security": "--security",
    "registry": "--registry",
}
_KEYS: dict[str, type[BaseModel]] = {"security": Security, "registry": Registry}
"""The sections whose keys are options."""


def source(
    name: str,
    topic: str,
    *,
    servers: str | None,
    security: Mapping[str, str],
    registry: Mapping[str, str],
    like: str | None,
) -> Source:
    """Return the source to look at, with the bytes of its records.

    Args:
        name: The new pipeline.
        topic: Its topic.
        servers: `host:port,...`, or `env:NAME` for the value of a variable.
        security: Keys of `source.security`, with values as above.
        registry: Keys of `source.registry`, as well; several addresses have commas between them. None: values have no frame.
        like: The pipeline whose brokers, security and registry to take instead.

    Raises:
        FatalError: An option is wrong. The message shows no value: it may be a secret.
    """
    raw: dict[str, Any] = {"topics": [topic], "value": {"format": "bytes"}}
    if like:
        other = pipelines.load_named(like).source
        registered = other.registry if other.value.frame != "none" else None  # else it is that of the keys
        raw |= {"bootstrap_servers": other.bootstrap_servers, "security": other.security, "registry": registered}
    else:
        raw["bootstrap_servers"] = _setting(servers or "")
        raw["security"] = {key: _setting(value) for key, value in security.items()}
        raw["registry"] = {key: _registry_setting(key, value) for key, value in registry.items()} or None
    if raw["registry"]:
        raw["value"] = {"format": "json", "columns": {"id": "string"}, "frame": "confluent"}
    return checked(Source, raw, name)


def checked(section: type[Model], raw: Mapping[str, Any], name: str) -> Model:
    """Return a section of the declaration.

    Raises:
        FatalError: A value is wrong.
    """
    try:
        return section.model_validate(raw, context=name)
    except ValidationError as error:
        raise FatalError(
            f"options of pipeline {name}: {_text(error.errors(include_url=False)[0])}",
            next_step="correct the option; docs/pipelines.md explains every key",
            entry="new-pipeline",
        ) from None


def _setting(text: str) -> str | dict[str, str]:
    return {"env": text.removeprefix("env:")} if text.startswith("env:") else text


def _registry_setting(key: str, text: str) -> Any:
    if key == "timeout_seconds" and text.isdecimal():
        return int(text)
    return text.split(",") if key == "urls" and not text.startswith("env:") else _setting(text)


def _text(detail: ErrorDetails) -> str:
    keys = [str(key) for key in detail["loc"]]  # pydantic appends the names of types
    known = [key for key in keys if key in _FIELDS]
    option = _OPTIONS.get(known[0] if known else "", "--security")
    if detail["type"] == "value_error":
        return f"{option}: {detail['ctx']['error']}"
    if keys[0] in _KEYS and len(known) == 1:
        return f"{option}: unknown key; known: {', '.join(_KEYS[keys[0]].model_fields)}"
    subject = f"{option} {known[-1]}" if keys[0] in _KEYS else option
    return (
        f"{subject}: expected {_FIELDS[known[-1]].description}, found something else; env:NAME stands for {{env: NAME}}"
    )
