"""Thought signatures: issues them bound to a model and a call, and recognises them again from any simulator process.

They carry their own proof, so nothing is stored for them; recorded ones that a scenario sends are remembered as sent.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import Any

ESCAPES = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
_MAGIC = b"\x12GCSIM1"
_SECRET = b"gemcode simulator: proves origin, protects nothing"
_RANDOM_SIZE = 96


def canonical_json(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces, 3.0 written as 3 (a protobuf Struct has only doubles)."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _digest(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()[:16]


def _escape_bytes() -> frozenset[bytes]:
    """Both escapes as base64 of their bytes decodes, and as the bare string (itself URL-safe base64) decodes."""
    bare = (base64.urlsafe_b64decode(escape + b"=" * (-len(escape) % 4)) for escape in ESCAPES)
    return frozenset([*ESCAPES, *bare])


_ESCAPES_DECODED = _escape_bytes()


def issue_signature(model: str, call: tuple[str, Mapping[str, Any]] | None = None) -> str:
    """A new signature in standard base64, for a call (name, args) or, with None, for any other part."""
    head = _MAGIC + _digest(model) + _call_digest(call) + os.urandom(_RANDOM_SIZE)
    return base64.b64encode(head + hmac.digest(_SECRET, head, "sha256")).decode()


class Signatures:
    """Judges the signatures that come back. `accept_unknown` lets foreign ones (recordings) pass."""

    def __init__(self, *, accept_unknown: bool = True) -> None:
        self.accept_unknown = accept_unknown
        self._sent: set[tuple[str, bytes]] = set()

    def remember(self, model: str, signature: bytes) -> None:
        """A scenario sent this signature by itself: it is genuine for this model from now on."""
        if not signature.startswith(_MAGIC):  # those prove themselves, and the call they belong to
            self._sent.add((model, signature))

    def accepts(self, model: str, signature: bytes, call: tuple[str, Mapping[str, Any]] | None) -> bool:
        if signature in _ESCAPES_DECODED or (model, signature) in self._sent:
            return True
        if not signature.startswith(_MAGIC):
            return self.accept_unknown
        head, proof = signature[:-32], signature[-32:]
        place = len(_MAGIC)
        return (
            hmac.compare_digest(hmac.digest(_SECRET, head, "sha256"), proof)
            and head[place : place + 16] == _digest(model)
            and head[place + 16 : place + 32] == _call_digest(call)
        )


def _call_digest(call: tuple[str, Mapping[str, Any]] | None) -> bytes:
    return _digest("part") if call is None else _digest("call", call[0], canonical_json(dict(call[1])))
