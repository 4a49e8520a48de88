"""Rules for tools: function names, the OpenAPI subset of `parameters`, references in schemas, calling modes. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gemcode.simulator.errors import Rejected, invalid_argument

Problem = tuple[str, str]  # (field path, text) of one `* Request.field: text` line

NAME_LIMIT = 128  # what the current documentation says; an older server text said 64
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.:-]{{0,{NAME_LIMIT - 1}}}")
INVALID_NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores "
    f"(_), dots (.), colons (:) or dashes (-), with a maximum length of {NAME_LIMIT}."
)
NO_DECLARATIONS = "Function calling config is set without function_declarations."
NAMES_NEED_MODE = "allowed_function_names should only be set when the function calling mode is ANY or VALIDATED."
_BESIDE_A_REFERENCE = frozenset({"description", "default"})
_SCHEMA_MAPS = ("properties", "$defs", "definitions", "defs", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "any_of")
_SCHEMA_FIELDS = ("items", "additionalProperties", "not")


def declarations(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every function declaration with its path."""
    for index, tool in enumerate(body.get("tools", [])):
        for number, declaration in enumerate(tool.get("function_declarations", [])):
            yield f"tools[{index}].function_declarations[{number}]", declaration


def find_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    """What the field validation of the service says about the declarations."""
    for path, declaration in declarations(body):
        if not _NAME.fullmatch(declaration.get("name", "")):
            yield f"{path}.name", INVALID_NAME
        for schema in ("parameters", "response"):
            other = f"{schema}_json_schema"
            if schema in declaration and other in declaration:
                yield f"{path}.{other}", f"must not be set together with {schema}."
            yield from _schema_problems(declaration.get(schema, {}), f"{path}.{schema}")
            if not isinstance(declaration.get(other, {}), dict):
                yield f"{path}.{other}", "must be a JSON Schema object."


def _schema_problems(schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """The OpenAPI subset: lists need items, required names need properties."""
    if schema.get("type") == "ARRAY" and "items" not in schema:
        yield f"{path}.items", "missing field."
    for index, name in enumerate(schema.get("required", [])):
        if "properties" in schema and name not in schema["properties"]:
            yield f"{path}.required[{index}]", "property is not defined"
    for index, value in enumerate(schema.get("enum", [])):
        if value == "":
            yield f"{path}.enum[{index}]", "cannot be empty"
    for name, item in schema.get("properties", {}).items():
        yield from _schema_problems(item, f"{path}.properties[{name}]")
    for index, item in enumerate(schema.get("any_of", [])):
        yield from _schema_problems(item, f"{path}.any_of[{index}]")
    if "items" in schema:
        yield from _schema_problems(schema["items"], f"{path}.items")


def check_declarations(body: Mapping[str, Any]) -> None:
    """Rules over whole declarations that the service answers one at a time. Raises Rejected."""
    names: set[str] = set()
    for _, declaration in declarations(body):
        if declaration["name"] in names:
            raise invalid_argument(f"Duplicate function declaration found: {declaration['name']}")
        names.add(declaration["name"])
        for field in ("parameters", "parameters_json_schema", "response", "response_json_schema"):
            check_references(declaration.get(field))
    _check_mode(body.get("tool_config", {}).get("function_calling_config", {}), names)


def _check_mode(config: Mapping[str, Any], declared: set[str]) -> None:
    mode = config.get("mode", "AUTO")
    allowed = config.get("allowed_function_names", [])
    if mode == "ANY" and not declared:
        raise invalid_argument(NO_DECLARATIONS)
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise invalid_argument(NAMES_NEED_MODE)
    for name in allowed:
        if name not in declared:
            raise invalid_argument(f"allowed_function_names contains `{name}`, which is not in function_declarations.")


def check_references(schema: Any) -> None:
    """A schema node with a reference may carry only a description, a default and `$`-keys beside it."""
    if not isinstance(schema, dict):
        return
    for key in ("$ref", "ref"):
        reference = schema.get(key)
        if isinstance(reference, str) and any(
            not name.startswith("$") and name not in _BESIDE_A_REFERENCE for name in schema.keys() - {key}
        ):
            raise _reference_rejected(reference)
    for key in _SCHEMA_MAPS:
        nodes = schema.get(key)
        for node in nodes.values() if isinstance(nodes, dict) else ():
            check_references(node)
    for key in _SCHEMA_LISTS:
        nodes = schema.get(key)
        for node in nodes if isinstance(nodes, list) else ():
            check_references(node)
    for key in _SCHEMA_FIELDS:
        check_references(schema.get(key))


def _reference_rejected(reference: str) -> Rejected:
    name = reference.rpartition("/")[2]
    return invalid_argument(
        f"Schema.ref '{name}' was set alongside unsupported fields. If a schema node has Schema.ref set, then only "
        "description and default can be set alongside it; other fields they would be replaced by the expanded "
        "reference."
    )
