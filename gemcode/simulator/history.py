"""Rules over the conversation: the order of calls and results, their ids and names, thought signatures. Pure.

Consecutive contents of one role count as one turn, as in the real service.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemcode.simulator.catalog import KnownModel
from gemcode.simulator.errors import invalid_argument
from gemcode.simulator.signatures import Signatures

CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
RESPONSE_ORDER = "Please ensure that function response turn comes immediately after a function call turn."
RESPONSE_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
ID_MISMATCH = "functionResponse.id does not match functionCall.id"
NAME_MISMATCH = "functionResponse.name does not match functionCall.name"
CORRUPTED = "Corrupted thought signature."

Content = Mapping[str, Any]


@dataclass(slots=True)
class Turn:
    """Consecutive contents of one role: their parts, each with the index of its content."""

    role: str
    parts: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [part[kind] for _, part in self.parts if kind in part]


def role_of(content: Content) -> str:
    """user or model; results used to have a role of their own, and no role means user."""
    role = content.get("role") or "user"
    return "user" if role == "function" else str(role)


def turns_of(contents: Sequence[Content], start: int = 0) -> list[Turn]:
    turns: list[Turn] = []
    for index in range(start, len(contents)):
        role = role_of(contents[index])
        if not turns or turns[-1].role != role:
            turns.append(Turn(role))
        turns[-1].parts += [(index, part) for part in contents[index]["parts"]]
    return turns


def check_order(contents: Sequence[Content], model: KnownModel, *, strict_ids: bool) -> None:
    """Every call turn follows a user turn, and is followed by one result for each call. Raises Rejected."""
    turns = turns_of(contents)
    for index, turn in enumerate(turns):
        calls, results = turn.payloads("function_call"), turn.payloads("function_response")
        if calls and index == 0:
            raise invalid_argument(CALL_ORDER, hint="the history starts with a call of the model")
        asked = turns[index - 1].payloads("function_call") if index else []
        if results and not asked:
            raise invalid_argument(RESPONSE_ORDER, hint=f"results in turn {index} answer no call")
        if turn.role == "user" and len(results) != len(asked):
            raise invalid_argument(RESPONSE_COUNT, hint=f"turn {index}: {len(asked)} calls, {len(results)} results")
        if model.matches_call_ids:
            _check_pairs(asked, results, strict_ids=strict_ids)
    if turns and turns[-1].payloads("function_call"):
        raise invalid_argument(RESPONSE_COUNT, hint="the last turn holds calls without results")


def _check_pairs(calls: list[dict[str, Any]], results: list[dict[str, Any]], *, strict_ids: bool) -> None:
    """Generation 3.5 and later: each result repeats id and name of its call."""
    identifiers = Counter(call.get("id", "") for call in calls)
    if identifiers != Counter(result.get("id", "") for result in results) or (strict_ids and "" in identifiers):
        raise invalid_argument(ID_MISMATCH, hint=f"ids of the calls: {', '.join(identifiers)}")
    named = Counter((call.get("id", ""), call.get("name")) for call in calls)
    if named != Counter((result.get("id", ""), result.get("name")) for result in results):
        raise invalid_argument(NAME_MISMATCH)


def current_turn_start(contents: Sequence[Content]) -> int:
    """Index after the last user content with real input: only what follows has its signatures checked."""
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        if role_of(content) == "user" and any("function_response" not in part for part in content["parts"]):
            return index + 1
    return 0


def check_signatures(contents: Sequence[Content], model: KnownModel, signatures: Signatures) -> None:
    """Generation 3 and later: the first call of each step in the current turn is signed, and genuinely."""
    for step in turns_of(contents, current_turn_start(contents)):
        if step.role != "model":
            continue
        for position, call in _unsigned_first_call(step):
            raise invalid_argument(_missing(call.get("name", ""), position + 1))
        for position, part in step.parts:
            signature = part.get("thought_signature")
            if signature and not signatures.accepts(model.name, signature, _signed_call(part)):
                raise invalid_argument(
                    CORRUPTED, hint=f"contents[{position}] holds a signature of another call or model"
                )


def _unsigned_first_call(step: Turn) -> Iterator[tuple[int, dict[str, Any]]]:
    for position, part in step.parts:
        if "function_call" in part:
            if not part.get("thought_signature"):
                yield position, part["function_call"]
            return


def _signed_call(part: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    call = part.get("function_call")
    return None if call is None else (call.get("name", ""), call.get("args", {}))


def _missing(name: str, position: int) -> str:
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        f"call `default_api:{name}` , position {position}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    )
