"""Names of models, and the list of them in the shapes of Anthropic and OpenAI. Pure."""

import re
from datetime import UTC, datetime

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import Failure, FailureKind
from gemcode.gemini import catalog

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_CREATED = datetime.combine(catalog.AS_OF, datetime.min.time(), UTC)


def anthropic_list() -> JsonObject:
    data = [anthropic_model(model.name) for model in catalog.MODELS]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}


def anthropic_model(name: str) -> JsonObject:
    _known(name)
    created = _CREATED.isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": name, "display_name": name, "created_at": created}


def openai_list() -> JsonObject:
    return {"object": "list", "data": [openai_model(model.name) for model in catalog.MODELS]}


def openai_model(name: str) -> JsonObject:
    _known(name)
    return {"id": name, "object": "model", "created": int(_CREATED.timestamp()), "owned_by": "google"}


def check_name(name: str) -> str:
    """The name, if it can be one of a model: it becomes a part of the service's address. Raises Failure."""
    if not _NAME.fullmatch(name):
        raise _unknown(name)
    return name


def _known(name: str) -> None:
    if catalog.find(name) is None:
        raise _unknown(name)


def _unknown(name: str) -> Failure:
    return Failure(FailureKind.NOT_FOUND, f"There is no model {name[:80]!r}.", code="model_not_found")
