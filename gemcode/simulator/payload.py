"""Reads a request body the way the service's JSON parser does: both spellings of every key, null as absent, one value
where a list is meant; collects what it can't read. Judges the form only, never the meaning."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from gemcode.simulator.errors import bad_request
from gemcode.simulator.fields import ENUMS, MESSAGES, PART_PAYLOADS

TYPE_PREFIX = "type.googleapis.com/google.ai.generativelanguage"
NOT_JSON = "Invalid JSON payload received."
TOO_DEEP = "Message too deep. Max recursion depth reached."
SHOWN_AROUND = 20  # characters of a broken body, on each side of the place
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def camel_case(name: str) -> str:
    """snake_case → camelCase; a leading underscore stays."""
    head, *rest = name.lstrip("_").split("_")
    return "_" * (len(name) - len(name.lstrip("_"))) + head + "".join(word.capitalize() for word in rest)


_FIELD_NAMES: Mapping[str, Mapping[str, str]] = {
    message: {spelling: name for name in fields for spelling in (name, camel_case(name))}
    for message, fields in MESSAGES.items()
}


def decode_bytes(text: str) -> bytes | None:
    """Standard or URL-safe base64, padded or not; None if it is neither.

    A single dangling character is dropped: recordings whose signatures were redacted have that length.
    """
    if not _BASE64.fullmatch(text):
        return None
    body = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    body = body[: len(body) - 1] if len(body) % 4 == 1 else body
    return base64.b64decode(body + "=" * (-len(body) % 4))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A body that is not JSON, and what the service's parser says about it."""

    reason: str


def read_json(body: bytes) -> Any:
    """The value of a body, by the strict rules: UTF-8 only, no NaN. None for no body at all."""
    if not body:
        return None
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        return Unreadable("Encountered non UTF-8 code points.")
    except json.JSONDecodeError as error:
        begin = max(0, error.pos - SHOWN_AROUND)
        around = error.doc[begin : error.pos + SHOWN_AROUND]
        return Unreadable(f"Unexpected token.\n{around}\n{' ' * (error.pos - begin)}^")
    except RecursionError:
        return Unreadable(TOO_DEEP)
    except ValueError as error:  # a number with thousands of digits
        return Unreadable(f"{error}.")


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no JSON", name, 0)


def read_payload(message: str, body: Any, version: str = "v1beta") -> dict[str, Any]:
    """The body with canonical (snake_case) keys; raises Rejected with one sentence for each thing it can't read."""
    if not isinstance(body, dict):
        raise bad_request([("", f'{NOT_JSON} Unknown name "": Root element must be a message.')])
    reader = _Reader(version)
    parsed = reader.message(message, body, "")
    if reader.violations:
        raise bad_request(reader.violations)
    return parsed


class _Reader:
    """One pass over one body, collecting (field, sentence) violations."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.violations: list[tuple[str, str]] = []

    def message(self, name: str, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._invalid(path, f"{TYPE_PREFIX}.{self.version}.{name}", value)
            return {}
        parsed: dict[str, Any] = {}
        for key, item in value.items():
            field = _FIELD_NAMES[name].get(key)
            if field is None:
                self._unknown(key, path, "Cannot find field.")
            elif item is not None:
                if name == "Part" and field in PART_PAYLOADS and parsed.keys() & (PART_PAYLOADS - {field}):
                    text = f"Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{key}'"
                    self._violation(path, text)
                parsed[field] = self._field(MESSAGES[name][field], item, path, field)
        return parsed

    def _field(self, kind: str, value: Any, parent: str, name: str) -> Any:
        path = f"{parent}.{name}" if parent else name
        if kind.endswith("[]"):
            if isinstance(value, list):
                return [self._single(kind[:-2], item, f"{path}[{index}]") for index, item in enumerate(value)]
            return [self._single(kind[:-2], value, path)]  # one value stands for a list of one
        if isinstance(value, list) and kind != "value":
            self._unknown(name, parent, "Proto field is not repeating, cannot start list.")
            return None
        return self._single(kind, value, path)

    def _single(self, kind: str, value: Any, path: str) -> Any:
        if kind in MESSAGES:
            return self.message(kind, value, path)
        if kind == "value":
            return value
        if kind == "object":
            if not isinstance(value, dict):
                self._invalid(path, "type.googleapis.com/google.protobuf.Struct", value)
            return value
        if kind.startswith("map:"):
            return self._map(kind.removeprefix("map:"), value, path)
        if kind.startswith("enum:"):
            return self._enum(kind.removeprefix("enum:"), value, path)
        return self._scalar(kind, value, path)

    def _map(self, kind: str, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._invalid(path, f"{TYPE_PREFIX}.{self.version}.{kind}", value)
            return {}
        return {
            key: self.message(kind, item, f"{path}[{index}].value") for index, (key, item) in enumerate(value.items())
        }

    def _enum(self, name: str, value: Any, path: str) -> Any:
        if isinstance(value, str) and value.upper() in ENUMS[name]:
            return value.upper()
        if not isinstance(value, int) or isinstance(value, bool):
            self._invalid(path, f"{TYPE_PREFIX}.{self.version}.{name}", value)
        return value

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            self._violation(
                path, f"Invalid value at '{path}' ({_SCALAR_NAMES[kind]}), Starting an object on a scalar field."
            )
            return value
        if kind == "bytes" and isinstance(value, str):
            if (decoded := decode_bytes(value)) is not None:
                return decoded
            text = f"Invalid value at '{path}' (TYPE_BYTES), Base64 decoding failed for {json.dumps(value)}"
            self._violation(path, text)
            return b""
        if not _fits(kind, value):
            self._invalid(path, _SCALAR_NAMES[kind], value)
        return value

    def _unknown(self, key: str, path: str, why: str) -> None:
        place = f" at '{path}'" if path else ""
        self._violation(path, f"{NOT_JSON} Unknown name {json.dumps(key)}{place}: {why}")

    def _invalid(self, path: str, type_name: str, value: Any) -> None:
        self._violation(path, f"Invalid value at '{path}' ({type_name}), {json.dumps(value, ensure_ascii=False)}")

    def _violation(self, path: str, text: str) -> None:
        self.violations.append((path, text))


_SCALAR_NAMES: Mapping[str, str] = {
    "string": "TYPE_STRING",
    "bool": "TYPE_BOOL",
    "int": "TYPE_INT32",
    "number": "TYPE_DOUBLE",
    "bytes": "TYPE_BYTES",
}


def _fits(kind: str, value: Any) -> bool:
    """Proto-JSON leniency: integral floats and numeric strings are integers, "true" is a bool."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool) or value in ("true", "false")
        case "int" | "number":
            return not isinstance(value, bool) and _is_number(value, whole=kind == "int")
    return False


def _is_number(value: Any, *, whole: bool) -> bool:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return number.is_integer() if whole else True
