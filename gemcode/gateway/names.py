"""Tool names that Gemini takes, and the way back to the client's own. Rebuilt from every request: nothing is stored."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

_ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_PREFIX_LENGTH = 55  # leaves room for the hash in 64

ToolKind = Literal["function", "custom"]


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool as its client calls it. A custom one takes free text instead of arguments."""

    name: str
    namespace: str = ""
    kind: ToolKind = "function"

    @property
    def gemini_name(self) -> str:
        return safe_name(f"{self.namespace}__{self.name}" if self.namespace else self.name)


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The declared tools of one request, by the name that Gemini knows them under."""

    tools: dict[str, ClientTool] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Iterable[ClientTool]) -> "ToolNames":
        return cls({tool.gemini_name: tool for tool in tools})

    def restore(self, gemini_name: str) -> ClientTool:
        return self.tools.get(gemini_name) or ClientTool(gemini_name)


def safe_name(name: str) -> str:
    """The name itself where Gemini takes it; else a readable prefix and a hash, the same every time."""
    if _ALLOWED.fullmatch(name):
        return name
    cleaned = _OTHER.sub("_", name)[:_PREFIX_LENGTH]
    if not re.match(r"[A-Za-z_]", cleaned):
        cleaned = "_" + cleaned[: _PREFIX_LENGTH - 1]
    return f"{cleaned}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
