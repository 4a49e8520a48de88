"""What several dialects share: media in a request, tools, limits of a model, sources of a web search. Pure."""

import base64
import binascii
import marshal
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gemcode.agent.messages import Blob, ChoiceMode, JsonObject, Opaque, ToolChoice, ToolDeclaration, UserPart
from gemcode.gateway.dialect import Failure, as_list, as_object, as_text
from gemcode.gateway.names import ClientTool, ToolNames
from gemcode.gateway.schema import normalize
from gemcode.gemini import catalog

_DATA_URL = re.compile(r"data:(?P<mime>[^;,]*)(?:;[^,;]*)*?;base64,(?P<data>.*)", re.DOTALL)
_LEVELS = {"none": "low", "minimal": "low", "low": "low", "medium": "medium"}
_OLD_BUDGET = (128, 24_576)  # what every model that takes a budget accepts
_DEFAULT_OUTPUT_LIMIT = 65_536
_STANDARD = str.maketrans("-_", "+/")
_STOP_SEQUENCES = 5
WEB_SEARCH = "web_search"
_REMEMBERED_SCHEMA = 16 * 1024  # bytes: longer ones would fill the memory


def decode_base64(text: Any, param: str) -> bytes:
    if not isinstance(text, str):
        raise Failure.invalid(param, "must be base64 text")
    standard = "".join(text.split()).translate(_STANDARD).rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Failure.invalid(param, "is not valid base64") from None


def media_of_url(url: Any, param: str) -> UserPart:
    """A data: URL becomes bytes; any other is left to the service to fetch."""
    if not isinstance(url, str) or not url:
        raise Failure.invalid(param, "must be a URL")
    if found := _DATA_URL.fullmatch(url):
        return Blob(found["mime"] or "application/octet-stream", decode_base64(found["data"], param))
    if url.startswith("data:"):
        raise Failure.invalid(param, "a data URL must be base64")
    if "://" not in url:
        raise Failure.invalid(param, "must be a URL")
    return Opaque({"fileData": {"mimeType": media_type(url.partition("?")[0]), "fileUri": url}})


def media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Source:
    url: str
    title: str


def search_queries(grounding: JsonObject) -> list[str]:
    queries = grounding.get("webSearchQueries")
    return [query for query in queries if isinstance(query, str)] if isinstance(queries, list) else []


def search_sources(grounding: JsonObject) -> list[Source]:
    chunks = grounding.get("groundingChunks")
    webs = [chunk.get("web") for chunk in chunks if isinstance(chunk, dict)] if isinstance(chunks, list) else []
    return [
        Source(str(web["uri"]), str(web.get("title") or web["uri"]))
        for web in webs
        if isinstance(web, dict) and "uri" in web
    ]


def output_limit(model: str, asked: int | None) -> int | None:
    """The client's limit, as far as the model goes."""
    info = catalog.find(model)
    return None if asked is None else min(asked, info.output_limit if info else _DEFAULT_OUTPUT_LIMIT)


def thinking_level(effort: Any) -> str | None:
    """Levels that every Gemini 3 model has, for the efforts that clients name."""
    return _LEVELS.get(effort, "high") if isinstance(effort, str) else None


def thinking_budget(model: str, budget: int | None) -> int | None:
    if budget is None or catalog.generation(model) >= (3, 0):
        return budget
    return max(_OLD_BUDGET[0], min(budget, _OLD_BUDGET[1]))


def stop_sequences(value: Any, param: str) -> tuple[str, ...]:
    """As many of them as Gemini takes; one may stand alone."""
    stops = [value] if isinstance(value, str) else as_list(value, param)
    return tuple(as_text(stop, param) for stop in stops[:_STOP_SEQUENCES])


def response_schema(form: Any, param: str) -> JsonObject | None:
    """The schema of a structured answer; Chat nests it one level deeper than the others."""
    if form is None:
        return None
    form = as_object(form, param)
    match form.get("type"):
        case "json_schema":
            inner = as_object(form.get("json_schema", form), param)
            return normalize(as_object(inner.get("schema"), f"{param}.schema"))
        case "json_object":
            return {"type": "object"}
    return None


class _Schema:
    """A schema as a key: equal when it would be written the same."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = marshal.dumps(value, 2)  # a fifth of the cost of JSON; version 2 writes equal values equally

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Schema) and self.key == other.key


@lru_cache(maxsize=1024)
def _known(schema: _Schema) -> JsonObject:
    return normalize(schema.value)


def _normalized(value: Any) -> JsonObject:
    """A client sends the same tools with every request: known ones are not worked out again. Never changed after."""
    schema = _Schema(value)
    return _known(schema) if len(schema.key) <= _REMEMBERED_SCHEMA else normalize(value)


def declare(tools: list[tuple[ClientTool, str, Any]]) -> tuple[ToolNames, tuple[ToolDeclaration, ...]]:
    """Names and declarations of (tool, description, schema); of two with one name the later counts."""
    by_name = {tool.gemini_name: (tool, description, schema) for tool, description, schema in tools}
    declarations = tuple(
        ToolDeclaration(name, description, _normalized(schema)) for name, (_, description, schema) in by_name.items()
    )
    return ToolNames({name: tool for name, (tool, _, _) in by_name.items()}), declarations


def hosted(kinds: Sequence[str], tools: Sequence[ToolDeclaration]) -> tuple[bool, tuple[str, ...]]:
    """Whether the service's own web search stands in for the client's, and which hosted tools are left out.

    Beside functions it is left out too: not every model combines them.
    """
    searches = [] if tools else [kind for kind in kinds if kind.startswith(WEB_SEARCH)]
    return bool(searches), tuple(kind for kind in kinds if kind not in searches)


def one_tool(name: str, names: ToolNames, param: str) -> ToolChoice:
    """The model must call this one, which must be declared."""
    for gemini_name, tool in names.tools.items():
        if tool.name == name:
            return ToolChoice(ChoiceMode.REQUIRED, (gemini_name,))
    raise Failure.invalid(param, f"no tool {name[:80]!r} is declared")
