"""Records sent byte by byte: records that a broker accepts but no client would send, such as a header whose name is not text."""

import socket
import time
from collections.abc import Iterable, Sequence
from struct import pack, unpack_from

Headers = Sequence[tuple[bytes, bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers, and the timestamp in milliseconds."""

_PRODUCE, _VERSION, _ALL_REPLICAS, _NONE = 0, 3, -1, -1
_NOT_LEADER = 6
_CASTAGNOLI = 0x82F63B78


def produce(bootstrap: str, topic: str, partition: int, records: Sequence[Record]) -> int:
    """Send one batch to the only broker; return the offset of its first record. Retry while a new partition has no leader."""
    for _ in range(100):
        error, offset = _produced(bootstrap, topic, partition, records)
        if error != _NOT_LEADER:
            break
        time.sleep(0.1)
    if error:
        raise ValueError(f"the broker refuses the batch with error code {error}")
    return offset


def _produced(bootstrap: str, topic: str, partition: int, records: Sequence[Record]) -> tuple[int, int]:
    """Send one produce request; return error code and first offset."""
    batch = _batch(records)
    name = _text(topic)
    # Without a transaction; one topic with one partition.
    body = (
        pack(">hhiii", _NONE, _ALL_REPLICAS, 20_000, 1, 0)[:12] + name + pack(">iii", 1, partition, len(batch)) + batch
    )
    header = pack(">hhi", _PRODUCE, _VERSION, 1) + _text("wire")
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=180) as connection:
        connection.sendall(pack(">i", len(header) + len(body)) + header + body)
        (length,) = unpack_from(">i", _exactly(connection, 4))
        answer = _exactly(connection, length)
    error, offset = unpack_from(">hq", answer, 4 + 4 + len(name) + 4 + 4)
    return int(error), int(offset)


def _exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = connection.recv(count - len(got))
        if not piece:
            raise ConnectionError("the broker hung up")
        got += piece
    return got


def _batch(records: Sequence[Record]) -> bytes:
    """Encode a batch of version 2, neither compressed nor part of a transaction."""
    first = records[0][3]
    last = max(timestamp for *_, timestamp in records)
    counted = pack(">hiqqqhii", 0, len(records) - 1, first, last, _NONE, _NONE, _NONE, len(records))
    counted += b"".join(_record(number, record, first) for number, record in enumerate(records))
    rest = pack(">ibI", _NONE, 2, crc32c(counted)) + counted
    return pack(">qi", 0, len(rest)) + rest


def _record(number: int, record: Record, first_timestamp: int) -> bytes:
    key, value, headers, timestamp = record
    body = b"\0" + _varint(timestamp - first_timestamp) + _varint(number) + _bytes(key) + _bytes(value)
    body += _varint(len(headers)) + b"".join(_bytes(name) + _bytes(content) for name, content in headers)
    return _varint(len(body)) + body


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def _bytes(content: bytes | None) -> bytes:
    return _varint(_NONE) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Encode zigzag: the sign in the last bit, then seven bits per byte."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def crc32c(content: Iterable[int]) -> int:
    """Return the checksum of a batch."""
    found = 0xFFFFFFFF
    for byte in content:
        found = _TABLE[(found ^ byte) & 0xFF] ^ (found >> 8)
    return found ^ 0xFFFFFFFF


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_CASTAGNOLI if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]
