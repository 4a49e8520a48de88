"""The Responses endpoints that keep something: previous_response_id, conversations, stored responses."""

from typing import Any

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import Encoder, Failure, FailureKind, as_object, as_text
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.responses import ResponsesDialect, input_items
from gemcode.gateway.responses_reply import response_of
from gemcode.gateway.service import Service


class StatefulResponses:
    def __init__(self, service: Service, dialect: ResponsesDialect) -> None:
        self._service = service
        self._dialect = dialect

    async def create(self, exchange: Exchange) -> None:
        body = await exchange.read_json()
        previous, conversation = body.get("previous_response_id"), _conversation_id(body.get("conversation"))
        if previous is not None and not isinstance(previous, str):
            raise Failure.invalid("previous_response_id", "must be a string")
        if previous and conversation:
            raise Failure.invalid("previous_response_id", "can't be used together with conversation")
        given = [self._whole(item) for item in input_items(body.get("input"))]
        whole = {**body, "input": [*self._earlier(previous, conversation), *given]}

        def keep(encoder: Encoder) -> None:
            self._keep(body, encoder.whole(), given)

        asked = self._dialect.decode(whole, self._service.config.resolve_model)
        await self._service.answer(exchange, self._dialect, asked, keep)

    def _earlier(self, previous: str | None, conversation: str | None) -> list[JsonObject]:
        if previous:
            return self._service.store.items_before(previous)
        return self._service.store.conversation_items(conversation) if conversation else []

    def _whole(self, item: JsonObject) -> JsonObject:
        """An item that stands in the input by its id alone, as it was stored with its response."""
        if item.get("type", "item_reference") != "item_reference" or "role" in item:
            return item
        identifier = as_text(item.get("id"), "input.id")
        output = self._service.store.output(response_of(identifier))
        found = next((stored for stored in output if stored.get("id") == identifier), None)
        if found is None:
            text = f"Item with id {identifier[:80]!r} not found. Items of responses with `store: false` are not kept."
            raise Failure(FailureKind.NOT_FOUND, text, param="input")
        return found

    def _keep(self, body: JsonObject, response: JsonObject, given: list[JsonObject]) -> None:
        """A failed answer leaves no trace: the client asks again from where it was."""
        if response["status"] not in ("completed", "incomplete"):
            return
        conversation = _conversation_id(body.get("conversation"))
        if conversation:
            self._service.store.append(conversation, [*given, *response["output"]])
        if body.get("store") is not False:
            self._service.store.save_response(response, given, body.get("previous_response_id"))

    async def stored_response(self, exchange: Exchange) -> None:
        identifier = _path_id(exchange)
        if exchange.scope["method"] == "DELETE":
            self._service.store.delete_response(identifier)
            await exchange.answer_json({"id": identifier, "object": "response", "deleted": True})
        else:
            await exchange.answer_json(self._service.store.response(identifier))

    async def create_conversation(self, exchange: Exchange) -> None:
        body = await exchange.read_json()
        items = input_items(body.get("items"))
        metadata = as_object(body.get("metadata") or {}, "metadata")
        await exchange.answer_json(self._service.store.create_conversation(items, metadata))

    async def stored_conversation(self, exchange: Exchange) -> None:
        identifier = _path_id(exchange)
        found = self._service.store.conversation(identifier)
        if exchange.scope["method"] == "DELETE":
            self._service.store.delete_conversation(identifier)
            found = {"id": identifier, "object": "conversation.deleted", "deleted": True}
        await exchange.answer_json(found)

    async def conversation_items(self, exchange: Exchange) -> None:
        identifier = _path_id(exchange)
        self._service.store.conversation(identifier)
        items = self._service.store.conversation_items(identifier)
        ends = {"first_id": items[0].get("id"), "last_id": items[-1].get("id")} if items else {}
        await exchange.answer_json({"object": "list", "data": items, "has_more": False, **ends})


def _path_id(exchange: Exchange) -> str:
    return str(exchange.scope["path_params"]["id"])


def _conversation_id(value: Any) -> str | None:
    """A string, or an object with an id."""
    value = value.get("id") if isinstance(value, dict) else value
    if value is None or (isinstance(value, str) and value):
        return value
    raise Failure.invalid("conversation", "must be an id or an object with one")
