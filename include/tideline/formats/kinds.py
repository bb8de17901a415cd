"""The formats that a declaration can name, to read and to write. A new one is a module and an entry here, see docs/contributing-a-format.md."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tideline.declaration.source import Key, Value
from tideline.domain.schemas import Schema
from tideline.errors import FatalError
from tideline.formats.encoder import Encoder
from tideline.formats.format import Format

# By name, so that a library that only one of them needs may be missing.
FORMATS: Mapping[str, str] = {
    "json": "tideline.formats.json_format",
    "text": "tideline.formats.whole_bytes",
    "bytes": "tideline.formats.whole_bytes",
    "avro": "tideline.formats.avro.avro_format",
    "protobuf": "tideline.formats.protobuf.protobuf_format",
    "debezium": "tideline.formats.debezium.debezium_format",
}
"""The modules of the formats. The function `declared` of each is a `MakesFormat`."""
ENCODERS: Mapping[str, str] = {
    "avro": "tideline.formats.avro.as_avro",
    "protobuf": "tideline.formats.protobuf.as_protobuf",
}
"""The modules that write values with a schema, by format. The function `encoder` of each has the arguments of `encoder` but the first."""


def module_of(name: str, modules: Mapping[str, str] = FORMATS) -> ModuleType:
    """Return the module of a format.

    Raises:
        FatalError: A library of the format is not installed.
    """
    try:
        return import_module(modules[name])
    except ModuleNotFoundError as error:
        raise FatalError(
            f"records are of the format {name}, and the library {error.name} is not installed",
            next_step=f"install it where Airflow's tasks and Spark's Python run: pip install 'tideline[{name}]'",
            entry="environment",
        ) from error


def declared(section: Value | Key, folder: Path) -> Format:
    """Return the format that a section of the declaration in `folder` names.

    Raises:
        FatalError: What the section names, such as a file, is not there or does not fit the columns; or a library of the format is missing.
    """
    found: Format = module_of(section.format).declared(section, folder)
    return found


def encoder(name: str, schema: Schema, message: str | None, head: bytes) -> Encoder:
    """Return what writes values of a format with a schema.

    Args:
        name: The format.
        schema: The schema.
        message: The full name of the message, for Protobuf.
        head: What stands before each value: the frame of the registry.

    Raises:
        ValueError: It is no schema that values can be written with.
        FatalError: A library of the format is missing.
    """
    found: Encoder = module_of(name, ENCODERS).encoder(schema, message, head)
    return found
