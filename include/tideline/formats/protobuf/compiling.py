"""Compile .proto files in the process, as `protoc` does, and find messages in what comes of it."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from tideline.domain.schemas import Reference
from tideline.errors import FatalError

_WELL_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers", "descriptor")
"""The files of Google's own types, which schemas may leave out."""
_TIME_LIMIT = 60
"""Seconds for the message of a mistake."""


class ProtobufSchemaError(ValueError):
    """The text is no schema of Protobuf that can be read. The message says where."""


class Messages:
    """The messages of a schema.

    Args:
        files: Its files, each behind those that it imports, as `protoc --include_imports --descriptor_set_out` writes them.

    Raises:
        ProtobufSchemaError: The bytes are no such files, or one of them is missing.
    """

    def __init__(self, files: bytes) -> None:
        try:
            given = FileDescriptorSet.FromString(files).file
        except DecodeError:
            raise ProtobufSchemaError("expected what protoc --descriptor_set_out writes, found other bytes") from None
        if not given:
            raise ProtobufSchemaError("expected what protoc --descriptor_set_out writes, found no file in it")
        self._pool = descriptor_pool.DescriptorPool()
        self._last: FileDescriptorProto = given[-1]
        names = {one.name for one in given}
        try:
            for one in [*(file for file in _well_known() if file.name not in names), *given]:
                self._pool.AddSerializedFile(one.SerializeToString())
        except TypeError as error:
            raise ProtobufSchemaError(
                f"{' '.join(str(error).split())}; was it written with --include_imports?"
            ) from error

    def named(self, name: str) -> Descriptor:
        """Return the message of this full name.

        Raises:
            ProtobufSchemaError: There is none.
        """
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            package = f"{self._last.package}." if self._last.package else ""
            has = ", ".join(package + one.name for one in self._last.message_type[:10]) or "none"
            raise ProtobufSchemaError(f"expected message {name}, found {has} in {self._last.name}") from None

    def indexes(self, name: str) -> tuple[int, ...] | None:
        """Return the place of a message in the last file, and in each message around it; None if it is of an import.

        Raises:
            ProtobufSchemaError: There is none of this full name.
        """
        self.named(name)
        package = f"{self._last.package}." if self._last.package else ""
        found: list[int] = []
        messages = self._last.message_type
        for part in name.removeprefix(package).split("."):
            index = next((number for number, one in enumerate(messages) if one.name == part), None)
            if index is None or not name.startswith(package):
                return None
            found.append(index)
            messages = messages[index].nested_type
        return tuple(found)

    def numbered(self, indexes: Sequence[int]) -> str | None:
        """Return the name of a message of the last file by its place in the file, and in each message around it; None if there is none."""
        name, messages = str(self._last.package), self._last.message_type
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            name = f"{name}.{messages[index].name}" if name else messages[index].name
            messages = messages[index].nested_type
        return name


def compiled(text: str, references: Sequence[Reference] = ()) -> bytes:
    """Return the files of a schema, each behind those that it imports.

    Args:
        text: The schema, as in a .proto file.
        references: The files that it imports, by the names of the imports.

    Raises:
        ProtobufSchemaError: It does not compile, or the name of an import leaves its folder.
        FatalError: The compiler is not installed.
    """
    return _compiled(text, tuple(references))


@lru_cache(maxsize=1_000)
def _compiled(text: str, references: tuple[Reference, ...]) -> bytes:
    try:
        protoc = import_module("grpc_tools.protoc")
    except ModuleNotFoundError as error:
        raise FatalError(
            "a schema of Protobuf that is text must be compiled, and grpcio-tools is not installed",
            next_step="install it where Airflow's tasks and Spark's Python run: pip install 'tideline[protobuf]'",
            entry="environment",
        ) from error
    main = "schema.proto"  # a registry keeps a file without its name
    while main in {one.name for one in references}:
        main = f"_{main}"
    with tempfile.TemporaryDirectory(prefix="tideline-proto-") as folder:
        for file in (*references, Reference(main, text)):
            path = PurePosixPath(file.name)
            if path.is_absolute() or ".." in path.parts or not path.name:
                raise ProtobufSchemaError(f"expected the name of an import below its folder, found {file.name!r}")
            target = Path(folder, path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(file.text, encoding="utf-8")
            except (OSError, ValueError) as error:  # too long, a folder that is a file, U+0000, half a surrogate pair
                raise ProtobufSchemaError(
                    f"{file.name[:100]!r} is no file with text: {type(error).__name__}"
                ) from error
        made = Path(folder, "made.desc")
        builtin = resources.files("grpc_tools") / "_proto"
        options = [f"-I{folder}", f"-I{builtin}", "--include_imports", f"--descriptor_set_out={made}", main]
        # Here it takes 2 ms, in a process of its own 200. What it says of a mistake goes to this process's standard error: so it is asked again.
        if protoc.main(["protoc", *options]) != 0 or not made.is_file():
            raise ProtobufSchemaError(f"it does not compile: {_said(options, folder)}")
        return made.read_bytes()


def _said(options: Sequence[str], folder: str) -> str:
    command = [sys.executable, "-m", "grpc_tools.protoc", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIME_LIMIT)
    said = [
        line for line in ran.stderr.replace(f"{folder}/", "").splitlines() if not line.startswith(("WARNING:", "W0000"))
    ]
    return "; ".join(said) or f"protoc ended with {ran.returncode}"


@lru_cache(maxsize=1)
def _well_known() -> tuple[FileDescriptorProto, ...]:
    files = []
    for name in _WELL_KNOWN:
        file = FileDescriptorProto()
        import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return tuple(files)
