"""What the real service rejects, with its exact texts. Pure: no sockets, no state but the signatures it is given.

Strict where the behaviour is known, lenient where it is not: a request that the real service accepts must pass.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gemcode.simulator.catalog import KnownModel, find_model
from gemcode.simulator.declarations import Problem, check_declarations, check_references, find_problems
from gemcode.simulator.errors import input_too_long, invalid_argument, invalid_fields, model_not_found
from gemcode.simulator.fields import PART_PAYLOADS
from gemcode.simulator.history import check_order, check_signatures
from gemcode.simulator.payload import read_payload
from gemcode.simulator.signatures import Signatures
from gemcode.simulator.usage import count_prompt

MESSAGE_OF_METHOD = {
    "generateContent": "GenerateContentRequest",
    "streamGenerateContent": "GenerateContentRequest",
    "countTokens": "CountTokensRequest",
}
ROLES = ("user", "model", "function")  # `function` is the old role of results
INVALID_ROLE = "Please use a valid role: user, model."
NO_DATA = "required oneof field 'data' must have one initialized field"
CACHE_CONFLICT = (
    "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.\n\n"
    "Proposed fix: move those values to CachedContent from GenerateContent request."
)
BOTH_THINKING = "You can only set only one of thinking budget and thinking level."


def check_request(
    version: str,
    model: str,
    method: str,
    body: Any,
    *,
    strict_ids: bool = False,
    signatures: Signatures | None = None,
) -> None:
    """Raises Rejected if the service would refuse this request; without `signatures`, foreign ones are accepted."""
    known = find_model(version, model)
    if known is None or method not in MESSAGE_OF_METHOD:
        raise model_not_found(version, model, method)
    read_request(version, known, method, body, strict_ids=strict_ids, signatures=signatures)


def read_request(
    version: str,
    model: KnownModel,
    method: str,
    body: Any,
    *,
    strict_ids: bool = False,
    signatures: Signatures | None = None,
) -> dict[str, Any]:
    """The body with canonical snake_case keys, for a model that is known. Raises Rejected."""
    message = MESSAGE_OF_METHOD[method]
    parsed = read_payload(message, {} if body is None else body, version)
    inner = parsed.get("generate_content_request", parsed)
    prefix = f"{message}.generate_content_request" if inner is not parsed else message
    if problems := [*_content_problems(inner), *find_problems(inner), *_generation_problems(inner)]:
        raise invalid_fields(prefix, problems)
    if any(content.get("role", "user") not in ("", *ROLES) for content in inner["contents"]):
        raise invalid_argument(INVALID_ROLE)
    check_declarations(inner)
    if method != "countTokens":
        _check_generation(inner, model)
        check_order(inner["contents"], model, strict_ids=strict_ids)
        if model.needs_signatures:
            check_signatures(inner["contents"], model, signatures or Signatures())
            _check_result_references(inner)
        if (tokens := count_prompt(inner)) > model.input_limit:
            raise input_too_long(tokens, model.input_limit)
    return parsed


def _content_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    contents = body.get("contents", [])
    if not contents:
        yield "contents", "contents is not specified"
    for index, content in enumerate(contents):
        if not content.get("parts"):
            yield f"contents[{index}].parts", "contents.parts must not be empty."
        yield from _part_problems(content, f"contents[{index}]")
    yield from _part_problems(body.get("system_instruction", {}), "system_instruction")


def _part_problems(content: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for index, part in enumerate(content.get("parts", [])):
        if not part.keys() & PART_PAYLOADS:
            yield f"{path}.parts[{index}].data", NO_DATA
        for kind in ("function_call", "function_response"):
            if kind in part and not part[kind].get("name"):
                yield f"{path}.parts[{index}].{kind}.name", "Name cannot be empty."


def _generation_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    config = body.get("generation_config", {})
    if not 0 <= float(config.get("temperature", 1)) <= 2:
        yield "generation_config.temperature", "must be in the range [0.0, 2.0]."
    if not 0 <= float(config.get("top_p", 1)) <= 1:
        yield "generation_config.top_p", "must be in the range [0.0, 1.0]."
    if float(config.get("max_output_tokens", 1)) <= 0:
        yield "generation_config.max_output_tokens", "must be positive."
    if "response_schema" in config and config.keys() & {"response_json_schema", "_response_json_schema"}:
        yield "generation_config.response_json_schema", "must not be set together with response_schema."


def _check_generation(body: Mapping[str, Any], model: KnownModel) -> None:
    config = body.get("generation_config", {})
    for field in ("response_schema", "response_json_schema", "_response_json_schema"):
        check_references(config.get(field))
    _check_thinking(config.get("thinking_config", {}), model)
    if body.get("cached_content") and any(body.get(key) for key in ("system_instruction", "tools", "tool_config")):
        raise invalid_argument(CACHE_CONFLICT)
    if "continuation_token" in body and not model.continues:
        raise invalid_argument("Continuation is not supported for this model.")


def _check_thinking(config: Mapping[str, Any], model: KnownModel) -> None:
    level = config.get("thinking_level", "THINKING_LEVEL_UNSPECIFIED")
    has_level = level != "THINKING_LEVEL_UNSPECIFIED"
    if has_level and "thinking_budget" in config:
        raise invalid_argument(BOTH_THINKING)
    if has_level and not model.levels:
        raise invalid_argument("Thinking level is not supported for this model.")
    if has_level and level not in model.levels:
        raise invalid_argument(
            f"Thinking level {level} is not supported for this model. Please retry with other thinking level."
        )
    if "thinking_budget" in config:
        _check_budget(int(float(config["thinking_budget"])), model)


def _check_budget(budget: int, model: KnownModel) -> None:
    if model.budget is None:
        raise invalid_argument("Thinking budget is not supported for this model.")
    if budget == -1:
        return
    if budget == 0:
        if not model.thinking_can_be_off:
            raise invalid_argument("Budget 0 is invalid. This model only works in thinking mode.")
        return
    low, high = model.budget
    if not low <= budget <= high:
        raise invalid_argument(
            f"The thinking budget ({budget}) is invalid. Please choose a value between {low} and {high}."
        )


def _check_result_references(body: Mapping[str, Any]) -> None:
    """In a result, `$ref` means a media part of that result; any other use of the key is refused."""
    for content in body["contents"]:
        for part in content["parts"]:
            result = part.get("function_response", {})
            shown = {item.get("inline_data", {}).get("display_name") for item in result.get("parts", [])}
            for name in _references(result.get("response")):
                if name not in shown:
                    raise invalid_argument(
                        f"The referenced name {name} in function_response.response does not match to a display_name "
                        "in the function_response.parts."
                    )


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
