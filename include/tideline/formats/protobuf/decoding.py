"""Decode records of one narrowed message: Google's decoder judges each, and ptars makes Arrow columns of what it says.

ptars alone takes some records that are none, and reads a field that a record has twice in ways of its own. So it is never given bytes
of a record, but what Google's library writes for it: each field once, in the order of the numbers.
"""

from functools import lru_cache

import pyarrow as pa
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from ptars import HandlerPool

from tideline.formats.protobuf.schema import KEY, Field, NarrowedMessage

_ROOT = "Record"
NO_MESSAGE = "the bytes are no message of this schema, or text in it is not valid UTF-8"


class MessageDecoder:
    """Decodes records of one narrowed message.

    Args:
        message: The narrowed message. Columns of fields are called `f` and their number.
    """

    def __init__(self, message: NarrowedMessage) -> None:
        file = FileDescriptorProto(name="record.proto", syntax="proto3")
        file.message_type.append(_described(message, _ROOT, f".{_ROOT}"))
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        described = pool.FindMessageTypeByName(_ROOT)
        self._parse = message_factory.GetMessageClass(described).FromString
        self._columns = HandlerPool([described.file]).get_for_message(described)

    def decoded(self, records: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int]]:
        """Return the fields of the records, in their order, but for those at the returned positions, which are no messages."""
        wrong, found = [], []
        parse = self._parse
        for position, record in enumerate(records.to_pylist()):
            try:
                found.append(parse(record).SerializeToString(deterministic=True))
            except DecodeError:
                wrong.append(position)
        return self._columns.array_to_record_batch(pa.array(found, pa.binary())), wrong


@lru_cache(maxsize=100)
def decoder_of(message: NarrowedMessage) -> MessageDecoder:
    """Return the decoder of a narrowed message."""
    return MessageDecoder(message)


def column_name(number: int) -> str:
    """Return the column of the field with this number."""
    return f"f{number}"


def _described(message: NarrowedMessage, name: str, path: str) -> DescriptorProto:
    """Return the descriptor of a narrowed message.

    Args:
        message: The message.
        name: Its name in the file.
        path: The same behind the names of those around it.
    """
    made = DescriptorProto(name=name)
    made.options.map_entry = message.is_entry
    choices = [*dict.fromkeys(field.choice for field in message.fields if field.choice)]
    for number in range(len(choices)):
        made.oneof_decl.add(name=f"choice_{number}")
    for field in message.fields:
        one = _field(message, field, path)
        made.field.append(one)
        if isinstance(field.node, NarrowedMessage):
            inner = one.type_name.rpartition(".")[2]
            made.nested_type.append(_described(field.node, inner, one.type_name))
        if field.choice:
            made.field[-1].oneof_index = choices.index(field.choice)
    for one, field in zip(made.field, message.fields, strict=True):
        is_optional = field.has_presence and not (
            field.choice or field.is_repeated or isinstance(field.node, NarrowedMessage)
        )
        if is_optional:  # proto3 writes it as a oneof of its own, behind the real ones
            one.proto3_optional, one.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{one.name}")
    return made


def _field(message: NarrowedMessage, field: Field, path: str) -> FieldDescriptorProto:
    name = ("key" if field.number == KEY else "value") if message.is_entry else column_name(field.number)
    made = FieldDescriptorProto(name=name, number=field.number, json_name=name)
    made.label = FieldDescriptorProto.LABEL_REPEATED if field.is_repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if isinstance(field.node, NarrowedMessage):
        made.type = FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = f"{path}.{name.capitalize()}Entry" if field.node.is_entry else f"{path}.M{field.number}"
    elif (
        field.node.type == FieldDescriptorProto.TYPE_ENUM
    ):  # by its number, which may be one that this schema does not know
        made.type = FieldDescriptorProto.TYPE_INT32
    else:
        made.type = field.node.type
    return made
