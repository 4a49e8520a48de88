"""The list of models in the shapes of Anthropic and OpenAI. Pure."""

from datetime import UTC, datetime

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import Failure, FailureKind
from gemcode.gemini import catalog

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


def _known(name: str) -> None:
    if catalog.find(name) is None:
        raise Failure(FailureKind.NOT_FOUND, f"There is no model {name[:80]!r}.", code="model_not_found")
