"""What is kept: previous_response_id, conversations, stored responses, and conversations of the Gemini endpoint."""

import json
import socketserver
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.dialect import Failure
from gemcode.gateway.store import ROWS, Store
from gemcode.gemini.settings import GeminiSettings
from gemcode.simulator.reply import Call, Fault, Reply, Text
from gemcode.simulator.server import running_simulator
from tests.gateway.support import MODEL, TOKEN, Script, Stage, config_for, no_violations, running_gateway, stage

TOOL = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}
HEADERS = {"x-goog-api-key": TOKEN}
GENERATE = "{}/v1beta/models/" + MODEL + ":{}"
HI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def client(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)


def said(made: Stage, index: int = -1) -> list[tuple[str, list[str]]]:
    return [(c["role"], [p.get("text", next(iter(p))) for p in c["parts"]]) for c in made.upstream[index].contents]


def test_a_response_goes_on_from_the_one_before_it() -> None:
    with stage(Reply.calls(Call("read", {"path": "a"})), Reply.says("Done."), Reply.says("More.")) as made:
        http = client(made.url)
        first = http.responses.create(model=MODEL, input="go", tools=[TOOL], instructions="Be short.")
        call = next(item for item in first.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "x"}
        second = http.responses.create(model=MODEL, input=[output], tools=[TOOL], previous_response_id=first.id)
        third = http.responses.create(model=MODEL, input="and?", previous_response_id=second.id)
        assert (second.output_text, third.output_text, third.previous_response_id) == ("Done.", "More.", second.id)
        roles = [role for role, _ in said(made)]
        assert roles == ["user", "model", "user", "model", "user"] and len(made.signatures()) == 2
        assert "systemInstruction" not in made.upstream[-1].body, "instructions are not carried over"
        assert http.responses.retrieve(first.id).id == first.id
        http.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            http.responses.retrieve(first.id)
        no_violations(made)


def test_a_response_that_is_not_known_or_was_not_to_be_stored_is_an_error_never_silence() -> None:
    with stage(Reply.says("ok")) as made:
        http = client(made.url)
        unstored = http.responses.create(model=MODEL, input="go", store=False)
        for missing in (unstored.id, "resp_unknown"):
            with pytest.raises(openai.BadRequestError) as refused:
                http.responses.create(model=MODEL, input="and?", previous_response_id=missing)
            assert refused.value.code == "previous_response_not_found"
        assert len(made.upstream) == 1


def test_an_item_of_a_stored_response_may_stand_in_the_input_by_its_id() -> None:
    with stage(Reply.calls(Call("read", {"path": "a"})), Reply.says("Done.")) as made:
        http = client(made.url)
        first = http.responses.create(model=MODEL, input="go", tools=[TOOL])
        call = next(item for item in first.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "x"}
        items = [{"type": "item_reference", "id": item.id} for item in first.output]
        items[-1].pop("type")  # it may be left out
        second = http.responses.create(model=MODEL, input=[{"role": "user", "content": "go"}, *items, output])
        assert len({item.id for item in (*first.output, *second.output)}) == len(first.output) + len(second.output)
        assert said(made) == [("user", ["go"]), ("model", ["functionCall"]), ("user", ["functionResponse"])]
        assert len(made.signatures()) == 1
        http.responses.delete(first.id)
        http.responses.create(model=MODEL, input="and?", previous_response_id=second.id)
        assert len(said(made)) == 5, "what was referred to is kept with the response that used it"
        no_violations(made)


def test_an_item_that_is_not_known_or_was_not_to_be_stored_is_an_error_that_names_it() -> None:
    with stage(Reply.says("ok")) as made:
        http = client(made.url)
        unstored = http.responses.create(model=MODEL, input="go", store=False)
        for missing in (unstored.output[-1].id, "msg_unknown", "x"):
            with pytest.raises(openai.NotFoundError, match="Item with id") as refused:
                http.responses.create(model=MODEL, input=[{"type": "item_reference", "id": missing}])
            assert refused.value.param == "input" and missing in refused.value.message
        assert len(made.upstream) == 1


def test_a_stored_prompt_is_refused_rather_than_left_out() -> None:
    with stage(Reply.says("ok")) as made:
        with pytest.raises(openai.BadRequestError) as refused:
            client(made.url).responses.create(model=MODEL, input="go", prompt={"id": "pmpt_1"})
        assert refused.value.param == "prompt" and made.upstream == []


def test_half_a_surrogate_pair_is_kept_as_the_question_mark_that_was_sent() -> None:
    with stage(Reply.says("ok")) as made:
        body = {"model": MODEL, "input": "a\ud800b", "conversation": "mine\udfff", "stream": True}
        for _ in range(2):
            answer = httpx2.post(made.url + "/v1/responses", headers=HEADERS, content=json.dumps(body).encode())
            assert "response.completed" in answer.text
        assert [texts for role, texts in said(made) if role == "user"] == [["a?b"], ["a?b"]]


def test_a_store_that_fails_ends_the_stream_with_the_error_of_the_dialect(tmp_path: Path) -> None:
    with stage(Reply.says("ok"), state=tmp_path) as made:
        with sqlite3.connect(tmp_path / "responses.sqlite") as other:
            other.execute("drop table responses")
        body = {"model": MODEL, "input": "hi", "stream": True}
        answer = httpx2.post(made.url + "/v1/responses", headers=HEADERS, json=body)
        assert answer.text.rstrip().rpartition("event: ")[2].startswith("response.failed")


def test_a_store_that_fails_ends_a_stream_of_the_gemini_endpoint_with_its_error(tmp_path: Path) -> None:
    with stage(Reply.says("ok"), state=tmp_path) as made:
        with sqlite3.connect(tmp_path / "responses.sqlite") as other:
            other.execute("create trigger full before insert on items begin select raise(fail, 'full'); end")
        body = {**HI, "stream": True, "conversation": "mine"}
        answer = httpx2.post(made.url + "/v1/gemini", headers=HEADERS, json=body)
        assert "error" in json.loads(answer.text.split("data: ")[-1])


def test_a_conversation_grows_with_each_response() -> None:
    with stage(Reply.says("One."), Reply.says("Two.")) as made:
        http = client(made.url)
        conversation = http.conversations.create(items=[{"type": "message", "role": "user", "content": "I am Ada."}])
        http.responses.create(model=MODEL, input="hello", conversation=conversation.id)
        http.responses.create(model=MODEL, input="and?", conversation={"id": conversation.id}, store=False)
        assert said(made)[0] == ("user", ["I am Ada.", "hello"]) and said(made)[-1] == ("user", ["and?"])
        assert (
            len(list(http.conversations.items.list(conversation.id))) == 7
        )  # one given, then twice: question, answer, reasoning
        http.conversations.delete(conversation.id)
        with pytest.raises(openai.NotFoundError):
            http.responses.create(model=MODEL, input="x", conversation=conversation.id)


def test_a_conversation_that_the_client_names_itself_begins_empty() -> None:
    with stage(Reply.says("One."), Reply.says("Two.")) as made:
        http = client(made.url)
        for text in ("first", "second"):
            http.responses.create(model=MODEL, input=text, conversation="my-session-7")
        assert [role for role, _ in said(made)] == ["user", "model", "user"]


def test_a_failed_response_leaves_no_trace() -> None:
    with stage(Reply(error="internal"), Reply.says("ok")) as made:
        http = client(made.url)
        with pytest.raises(openai.InternalServerError):
            http.responses.create(model=MODEL, input="lost", conversation="s")
        http.responses.create(model=MODEL, input="kept", conversation="s")
        assert said(made) == [("user", ["kept"])]


def test_two_gateways_with_one_file_share_what_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state" / "gateway"
    with running_simulator(Script(Reply.says("One."), Reply.says("Two."))) as simulator:
        config = config_for(simulator, state=state)
        with running_gateway(config, print) as one, running_gateway(config, print) as two:
            first = client(one).responses.create(model=MODEL, input="go")
            second = client(two).responses.create(model=MODEL, input="and?", previous_response_id=first.id)
            assert second.output_text == "Two."
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "responses.sqlite").stat().st_mode & 0o777 == 0o600


def test_the_gemini_endpoint_takes_declarations_and_keeps_a_conversation() -> None:
    with stage(Reply.calls(Call("read", {})), Reply.says("Done."), Reply.says("Again.")) as made:
        declarations = [{"name": "read", "description": "d", "parameters": {"type": "OBJECT", "properties": {}}}]
        common = {"model": MODEL, "functionDeclarations": declarations, "conversation": "c1"}
        url = f"{made.url}/v1/gemini"
        config = {"functionCallingConfig": {"mode": "ANY"}}
        first = httpx2.post(url, headers=HEADERS, json={**common, "contents": "go", "toolConfig": config}).json()
        call = first["candidates"][0]["content"]["parts"][0]["functionCall"]
        answer = {"functionResponse": {"id": call["id"], "name": "read", "response": {"output": "x"}}}
        body = {**common, "contents": [{"role": "user", "parts": [answer]}], "stream": True}
        streamed = httpx2.post(url, headers=HEADERS, json=body)
        assert streamed.headers["content-type"] == "text/event-stream" and "Done." in streamed.text
        listed = {**common, "conversation": [{"role": "user", "parts": [{"text": "as it is"}]}]}
        assert httpx2.post(url, headers=HEADERS, json=listed).status_code == 200
        assert said(made, 1)[0] == ("user", ["go"]) and said(made, 2) == [("user", ["as it is"])]
        assert made.upstream[0].body["toolConfig"] == config
        no_violations(made)


@pytest.mark.parametrize(
    "body",
    [{"conversation": 5}, {"functionDeclarations": 5}, {"functionDeclarations": [5]}, {"model": 5}, {"contents": 5}],
)
def test_the_gemini_endpoint_refuses_in_geminis_own_words(body: dict[str, Any]) -> None:
    with stage(Reply.says("ok")) as made:
        response = httpx2.post(f"{made.url}/v1/gemini", headers=HEADERS, json=body)
        assert response.status_code == 400 and response.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_errors_of_the_service_pass_through_as_they_are() -> None:
    with stage(Reply(error="quota_per_minute", retry_after=9)) as made:
        url = f"{made.url}/v1beta/models/{MODEL}:generateContent"
        response = httpx2.post(url, headers=HEADERS, json={"contents": [{"parts": [{"text": "x"}]}]})
        assert response.status_code == 429 and response.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert any("retryDelay" in detail for detail in response.json()["error"]["details"])
        bad = httpx2.post(url, headers=HEADERS, content=b"{")
        assert bad.status_code == 400 and "error" in bad.json()


@contextmanager
def half_an_event() -> Iterator[str]:
    """A service that says one event and half of another, and hangs up."""
    event = 'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "one"}]}}]}\r\n\r\n'
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write((head + event + event[:30]).encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"


def test_a_stream_that_breaks_inside_an_event_ends_with_the_error_and_without_the_half() -> None:
    with half_an_event() as service:
        config = GatewayConfig(GeminiSettings("upstream-key-0123456789", service), TOKEN, port=0)
        with running_gateway(config, lambda text: None) as url:
            answer = httpx2.post(f"{GENERATE.format(url, 'streamGenerateContent')}?alt=sse", headers=HEADERS, json=HI)
    first, last = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    assert first["candidates"][0]["content"]["parts"] == [{"text": "one"}] and last["error"]["status"] == "INTERNAL"


def test_a_whole_answer_that_breaks_off_has_a_status_of_its_own() -> None:
    with stage(Reply(steps=(Text("one"),), fault=Fault("content_length_lie"))) as made:
        answer = httpx2.post(GENERATE.format(made.url, "generateContent"), headers=HEADERS, json=HI)
        assert (answer.status_code, answer.json()["error"]["status"]) == (500, "INTERNAL")


def test_the_clients_key_does_not_reach_the_service() -> None:
    with stage(Reply.says("ok")) as made:
        url = f"{made.url}/v1/models/{MODEL}:streamGenerateContent?alt=sse&key={TOKEN}"
        assert httpx2.post(url, json={"contents": [{"parts": [{"text": "x"}]}]}).status_code == 200
        assert TOKEN not in str(made.upstream[0]) and "key" not in made.upstream[0].query


def test_only_so_much_is_kept() -> None:
    store = Store(None)
    for number in range(3):
        store.save_response({"id": f"r{number}", "output": []}, [], None)
    assert ROWS >= 1000
    assert store.items_before("r0") == []
    with pytest.raises(Failure):
        store.items_before("r9")
    store.close()


def test_the_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemcode.gateway.store.ROWS", 2)
    store = Store(None)
    for number in range(4):
        store.save_response({"id": f"r{number}", "output": []}, [], None)
        store.append(f"c{number}", [{"n": number}])
    with pytest.raises(Failure):
        store.response("r1")
    assert store.response("r3")["id"] == "r3"
    assert store.conversation_items("c3") == [{"n": 3}] and store.conversation_items("c0") == []
    store.close()
