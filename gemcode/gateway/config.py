"""What the gateway is started with. Values and their checks; reads one file, the token's."""

import fnmatch
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gemcode.agent.errors import UsageError
from gemcode.gateway.models import check_name
from gemcode.gemini.catalog import DEFAULT_MODEL
from gemcode.gemini.settings import GeminiSettings

DEFAULT_PORT = 8787
BODY_LIMIT = 32 * 1024 * 1024
_OWN_FAMILIES = ("gemini-", "gemma-", "learnlm-")
_VENDOR_PREFIXES = ("models/", "google/", "google.")


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Everything that one gateway needs. `state` is the directory of stored responses; None keeps them in memory."""

    gemini: GeminiSettings
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    model: str = DEFAULT_MODEL
    model_map: Mapping[str, str] = field(default_factory=dict)  # the client's name or a pattern → the Gemini model
    state: Path | None = None
    ping_seconds: float = 10.0
    body_seconds: float = 60.0  # a client that is silent for so long in the middle of its request is not waited for

    def resolve_model(self, name: str) -> str:
        """The Gemini model behind a client's name: the map, a Gemini name itself, else the default. Raises Failure."""
        for pattern, model in self.model_map.items():
            if fnmatch.fnmatchcase(name, pattern):
                return check_name(model)
        for prefix in _VENDOR_PREFIXES:
            name = name.removeprefix(prefix)
        return check_name(name if name.startswith(_OWN_FAMILIES) else self.model)


def parse_model_map(text: str) -> dict[str, str]:
    """`claude-opus*=gemini-3.1-pro-preview,gpt-*=gemini-3.8-flash` → a map, in that order."""
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    parsed: dict[str, str] = {}
    for pair in pairs:
        pattern, equals, model = (piece.strip() for piece in pair.partition("="))
        if not (pattern and equals and model):
            raise UsageError(f"{pair!r} is no mapping of models.", "Write NAME=GEMINI-MODEL, several with commas.")
        parsed[pattern] = model
    return parsed


def new_token() -> str:
    return "gc_" + secrets.token_hex(24)


def load_token(path: Path) -> str:
    """The token in this file; a missing file is created for its owner alone, with a new token."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise UsageError(f"The token file {path} can't be written: {error.strerror}.") from None
    token = new_token()
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return token


def _read_token(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            shared = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            token = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token file {path} can't be read: {error}.") from None
    if shared:
        raise UsageError(f"The token file {path} can be read by others.", f"chmod 600 {path}")
    if len(token) < 16 or not token.isascii() or any(sign in token for sign in "/, \t\n"):
        raise UsageError(
            f"The token file {path} holds no usable token.", "16 or more characters, without spaces, commas or slashes."
        )
    return token
