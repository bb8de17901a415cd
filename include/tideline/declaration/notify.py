"""The section `notify`: which notifier of Airflow is called when a run fails, and with which arguments."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from tideline.declaration.sections import ENV, FromEnvironment, MistakeBelow, Section, Text, has_password, may_be_secret

Event = Literal["failure", "stopped_stream"]
_SECRET = f"expected {ENV}, found a value that is not shown: it may be a secret"


def _plain(value: Any, keys: tuple[str | int, ...]) -> Any:
    """Return an argument as plain values, with `FromEnvironment` in place of `{env: NAME}`.

    Raises:
        MistakeBelow: A value may be a secret, or is not text, a number, a boolean, null, a list or a mapping.
    """
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, keys)
        # The YAML parser has number types of its own, which a notifier cannot always convert.
        case int() | float():
            return int(value) if isinstance(value, int) else float(value)
        case list():
            return [_plain(item, (*keys, number)) for number, item in enumerate(value)]
        case dict() if set(value) == {"env"}:
            return _reference(value, keys)
        case dict():
            return {key: _below(key, item, keys) for key, item in value.items()}
    raise MistakeBelow(keys, "expected text, a number, true, false, null, a list or a mapping")


def _below(key: Any, value: Any, keys: tuple[str | int, ...]) -> Any:
    if not isinstance(key, str):
        raise MistakeBelow(keys, "expected a mapping whose keys are text")
    is_literal = isinstance(value, str | int | float) and not isinstance(value, bool) and not _is_template(str(value))
    if is_literal and may_be_secret(key):
        raise MistakeBelow((*keys, key), _SECRET)
    return _plain(value, (*keys, key))


def _text(value: str, keys: tuple[str | int, ...]) -> str:
    if has_password(value):
        raise MistakeBelow(keys, _SECRET)
    return str(value)


def _reference(value: Mapping[str, Any], keys: tuple[str | int, ...]) -> FromEnvironment:
    try:
        return FromEnvironment.model_validate(value)
    except ValidationError:
        raise MistakeBelow(keys, f"expected {ENV}, found another name") from None


def _is_template(value: str) -> bool:
    """Return whether Airflow renders all of the value, such as `{{ conn.pager.password }}`."""
    return value.strip().startswith("{{") and value.strip().endswith("}}")


def _some(events: tuple[Event, ...]) -> tuple[Event, ...]:
    if not events:
        raise ValueError("expected failure, stopped_stream or both, found an empty list")
    return events


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _below(key, value, ()) for key, value in given.items()}


class Notify(Section):
    """Which notifier is called, when, and with which arguments. Without `notifier` none is called."""

    notifier: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")] | None = Field(
        default=None,
        title="The class of the notifier, with its module",
        description="a class with its module, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    )
    arguments: Annotated[Mapping[Text, Any], AfterValidator(_arguments)] = Field(
        default={},
        title="The notifier's keyword arguments; Airflow renders those that the notifier declares as templates",
        description=f"names of arguments with their values; a secret only as {ENV}",
    )
    on: Annotated[tuple[Event, ...], Field(strict=False), AfterValidator(_some)] = Field(
        default=("failure", "stopped_stream"),
        title="When to notify: when a run fails for any cause, or only when it fails because streams are stopped",
        description="a list of failure, stopped_stream",
    )

    @model_validator(mode="after")
    def _names_a_notifier(self) -> Self:
        if self.notifier is None and self.model_fields_set - {"notifier"}:
            raise ValueError(f"expected notifier as well, found only {', '.join(sorted(self.model_fields_set))}")
        return self
