"""Calls, results and signatures in a conversation: the order, the pairing, and whose signature it is."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.errors import Rejected
from gemcode.simulator.history import CALL_ORDER, CORRUPTED, ID_MISMATCH, NAME_MISMATCH, RESPONSE_COUNT, RESPONSE_ORDER
from gemcode.simulator.rules import check_request
from gemcode.simulator.signatures import ESCAPES, Signatures, issue_signature

FLASH = "gemini-3.8-flash"
OLD = "gemini-2.5-flash"
USER = {"role": "user", "parts": [{"text": "hi"}]}
SKIP = base64.b64encode(ESCAPES[0]).decode()


def call(name: str = "f", identifier: str | None = None, signature: str | None = SKIP, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "id": identifier, "args": args}, "thoughtSignature": signature}


def result(name: str = "f", identifier: str | None = None) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "id": identifier, "response": {"output": 1}}}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def text(value: str = "more") -> dict[str, Any]:
    return {"text": value}


def check(*contents: dict[str, Any], model: str = FLASH, strict_ids: bool = False, known: bool = False) -> None:
    signatures = Signatures(accept_unknown=not known)
    body = {"contents": list(contents)}
    check_request("v1", model, "generateContent", body, strict_ids=strict_ids, signatures=signatures)


def refusal(*contents: dict[str, Any], **options: Any) -> str:
    with pytest.raises(Rejected) as caught:
        check(*contents, **options)
    assert caught.value.http_code == 400
    return caught.value.message


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([model(call()), user(result())], CALL_ORDER),
        ([user(result())], RESPONSE_ORDER),
        ([USER, model(text()), user(result())], RESPONSE_ORDER),
        ([USER, model(call()), user(text())], RESPONSE_COUNT),
        ([USER, model(call(), call(signature=None)), user(result())], RESPONSE_COUNT),
        ([USER, model(call()), user(result(), result())], RESPONSE_COUNT),
        ([USER, model(call())], RESPONSE_COUNT),
        ([USER, model(call()), user(result()), model(text()), user(result())], RESPONSE_ORDER),
    ],
)
@pytest.mark.parametrize("name", [FLASH, OLD])
def test_broken_orders_are_refused_with_the_words_of_the_service(
    contents: list[dict[str, Any]], message: str, name: str
) -> None:
    assert refusal(*contents, model=name) == message


@pytest.mark.parametrize(
    "contents",
    [
        [USER, model(call()), user(result())],
        [USER, model(text(), call(), call(signature=None)), user(result(), result())],
        [USER, model(call()), model(call(signature=None)), user(result(), result())],
        [USER, model(call(), call(signature=None)), user(result()), user(result())],
        [USER, model(call()), user(result(), text())],
        [USER, model(call()), user(result()), user(text())],
        [USER, USER, model(text()), model(text()), USER],
        [USER, model(call()), {"role": "function", "parts": [result()]}],
        [USER, model(call()), user(result()), model(call()), user(result()), model(text()), USER],
        [USER, model(text())],
    ],
)
@pytest.mark.parametrize("name", [FLASH, OLD])
def test_turns_of_several_contents_are_one_turn(contents: list[dict[str, Any]], name: str) -> None:
    check(*contents, model=name)


@pytest.mark.parametrize(
    ("given_id", "returned_id"), [("a1", "b2"), ("a1", None), (None, "a1"), ("a1", ""), ("a1", "A1")]
)
def test_a_result_must_repeat_the_id_of_its_call_from_3_5_on(given_id: str | None, returned_id: str | None) -> None:
    contents = [USER, model(call(identifier=given_id)), user(result(identifier=returned_id))]
    assert refusal(*contents, model="gemini-3.5-flash") == ID_MISMATCH
    check(*contents, model="gemini-3-flash-preview")
    check(*contents, model=OLD)


def test_missing_ids_on_both_sides_pass_unless_ids_are_strict() -> None:
    contents = [USER, model(call()), user(result())]
    check(*contents)
    assert refusal(*contents, strict_ids=True) == ID_MISMATCH
    check(USER, model(call(identifier="a1")), user(result(identifier="a1")), strict_ids=True)


def test_a_result_must_repeat_the_name_of_its_call() -> None:
    assert refusal(USER, model(call("f", "a1")), user(result("g", "a1"))) == NAME_MISMATCH
    swapped = [USER, model(call("f", "a1"), call("g", "b2", None)), user(result("g", "a1"), result("f", "b2"))]
    assert refusal(*swapped) == NAME_MISMATCH
    assert refusal(USER, model(call("f")), user(result("g"))) == NAME_MISMATCH


def test_results_may_come_in_another_order_when_ids_tell_them_apart() -> None:
    check(USER, model(call("f", "a1"), call("g", "b2", None)), user(result("g", "b2"), result("f", "a1")))


MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:f` , position {position}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)


def test_a_missing_signature_is_named_with_its_call_and_position() -> None:
    contents = [USER, model(call(signature=None)), user(result())]
    assert refusal(*contents) == MISSING.format(position=2)
    assert refusal(*contents, model="gemini-3-flash-preview") == MISSING.format(position=2)
    check(*contents, model=OLD)


def test_every_step_of_the_current_turn_needs_its_own_signature() -> None:
    first = [USER, model(call()), user(result())]
    assert refusal(*first, model(call(signature=None)), user(result())) == MISSING.format(position=4)


def test_older_turns_are_not_looked_at() -> None:
    check(USER, model(call(signature=None)), user(result()), model(text()), USER)
    check(USER, model(call(signature=None)), user(result(), text("and now?")))
    check(USER, model(call(signature="AAAA")), user(result()), model(text()), USER, known=True)


def test_only_the_first_call_of_a_step_needs_a_signature() -> None:
    check(USER, model(text(), call(), call(signature=None)), user(result(), result()))
    wrong = [USER, model(call(signature=None), call()), user(result(), result())]
    assert refusal(*wrong) == MISSING.format(position=2)


def test_parallel_calls_replayed_one_by_one_are_refused() -> None:
    contents = [USER, model(call()), user(result()), model(call(signature=None)), user(result())]
    assert "missing a thought_signature" in refusal(*contents)


@pytest.mark.parametrize("escape", ESCAPES)
def test_both_escapes_pass_in_both_spellings(escape: bytes) -> None:
    for spelling in (escape.decode(), base64.b64encode(escape).decode(), base64.urlsafe_b64encode(escape).decode()):
        check(USER, model(call(signature=spelling)), user(result()), known=True)


def signed(name: str = "f", model_name: str = FLASH, **args: Any) -> str:
    return issue_signature(model_name, (name, args))


def test_a_signature_passes_on_its_own_call_in_any_spelling() -> None:
    signature = signed(path="a", depth=3)
    urlsafe = base64.urlsafe_b64encode(base64.b64decode(signature)).decode()
    for spelling in (signature, urlsafe, urlsafe.rstrip("=")):
        check(USER, model(call(signature=spelling, path="a", depth=3.0)), user(result()), known=True)


@pytest.mark.parametrize(
    "signature",
    [
        signed("g", path="a"),
        signed("f", path="b"),
        signed("f", "gemini-3.7-flash", path="a"),
        issue_signature(FLASH),
        base64.b64encode(b"made up by somebody else, and long enough").decode(),
        signed("f", path="a")[:-8] + "AAAAAAA=",
    ],
)
def test_an_edited_or_foreign_signature_is_corrupted(signature: str) -> None:
    assert refusal(USER, model(call(signature=signature, path="a")), user(result()), known=True) == CORRUPTED


def test_a_text_signature_is_checked_for_its_origin_only() -> None:
    good = {"text": "anything", "thoughtSignature": issue_signature(FLASH)}
    check(USER, model(good, call()), user(result()), known=True)
    bad = {"text": "", "thoughtSignature": signed("f")}
    assert refusal(USER, model(bad, call()), user(result()), known=True) == CORRUPTED


def test_a_signature_that_the_scenario_sent_is_known_afterwards() -> None:
    signatures = Signatures(accept_unknown=False)
    recorded = b"recorded from the real service"
    assert not signatures.accepts(FLASH, recorded, None)
    signatures.remember(FLASH, recorded)
    assert signatures.accepts(FLASH, recorded, ("f", {}))
    assert not signatures.accepts("gemini-3.7-flash", recorded, None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.integers(0, 10_000))
def test_any_flipped_byte_is_noticed(args: dict[str, Any], place: int) -> None:
    signatures = Signatures(accept_unknown=False)
    data = bytearray(base64.b64decode(issue_signature(FLASH, ("f", args))))
    assert len(data) >= 100
    assert signatures.accepts(FLASH, bytes(data), ("f", args))
    data[place % len(data)] ^= 1
    assert not signatures.accepts(FLASH, bytes(data), ("f", args))
