"""AWS event stream frames: two lengths, two checksums, headers, payload. Pure."""

import struct
import zlib
from collections.abc import Mapping

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import dump_bytes

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_STRING = 7  # the header type of text


def event_frame(kind: str, payload: JsonObject) -> bytes:
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def exception_frame(kind: str, message: str) -> bytes:
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, {"message": message})


def frame(headers: Mapping[str, str], payload: JsonObject) -> bytes:
    encoded = b"".join(_header(name, value) for name, value in headers.items())
    body = dump_bytes(payload)
    lengths = struct.pack(">II", 16 + len(encoded) + len(body), len(encoded))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + encoded + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return bytes([len(name)]) + name.encode() + struct.pack(">BH", _STRING, len(text)) + text
