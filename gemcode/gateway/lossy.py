"""JSON Schema → the OpenAPI subset of `parameters`, for models that refuse the full form. It widens, with a hint.

`level` is the rung of the ladder: 1 keeps all that the subset has, 2 sheds bounds and patterns, 3 enums as well.
"""

import math
from typing import Any

from gemcode.agent.messages import JsonObject
from gemcode.gateway.schema import DEPTH_LIMIT, resolve

LEVELS = 3
_TYPES = {"string": "STRING", "number": "NUMBER", "integer": "INTEGER", "boolean": "BOOLEAN", "array": "ARRAY"} | {
    "object": "OBJECT",
    "null": "NULL",
}
_FORMATS = {"STRING": ("date-time", "enum"), "INTEGER": ("int32", "int64"), "NUMBER": ("float", "double")}
_BOUNDS = {
    "STRING": ("minLength", "maxLength", "pattern"),
    "NUMBER": ("minimum", "maximum"),
    "INTEGER": ("minimum", "maximum"),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
}
_REFERENCE_DEPTH = 4  # how often a reference is followed inside itself


def to_openapi(schema: JsonObject, level: int) -> JsonObject | None:
    """The parameters of a declaration, or None where a schema says nothing."""
    definitions = schema.get("$defs")
    result = _Reduction(definitions if isinstance(definitions, dict) else {}, level).node(schema, ())
    return result if result.get("properties") else None


class _Reduction:
    """One schema on its way down."""

    def __init__(self, definitions: JsonObject, level: int) -> None:
        self._definitions = definitions
        self._level = level

    def node(self, schema: Any, trail: tuple[str, ...], depth: int = 0) -> JsonObject:
        if not isinstance(schema, dict) or depth > DEPTH_LIMIT:
            return {"type": "STRING"} if schema is None else {}
        if "$ref" in schema:
            return self._referenced(schema, trail, depth)
        hints: list[str] = []
        types = _types_of(schema)
        if len(types) > 1:
            result: JsonObject = {"anyOf": [self._typed(schema, kind, trail, depth, hints) for kind in types]}
        elif types:
            result = self._typed(schema, types[0], trail, depth, hints)
        elif isinstance(schema.get("anyOf"), list) and schema["anyOf"]:
            result = self._any_of(schema["anyOf"], trail, depth)
        else:
            result = {}
        if "null" in _listed(schema.get("type")) and result.get("type") != "NULL":
            result["nullable"] = True
        return self._described(result, schema, hints)

    def _referenced(self, schema: JsonObject, trail: tuple[str, ...], depth: int) -> JsonObject:
        reference = str(schema["$ref"])
        target = resolve(reference, self._definitions)
        if target is None or trail.count(reference) >= _REFERENCE_DEPTH:
            return self._described({}, schema, ["any value"])
        result = self.node(target, (*trail, reference), depth + 1)
        return self._described(result, schema, [])

    def _any_of(self, branches: list[Any], trail: tuple[str, ...], depth: int) -> JsonObject:
        nodes = [self.node(branch, trail, depth + 1) for branch in branches]
        solid = [node for node in nodes if node != {"type": "NULL"}]
        nullable = len(solid) < len(nodes)
        if any(not node for node in solid):
            return {}  # one branch takes anything, so the whole does
        result: JsonObject = dict(solid[0]) if len(solid) == 1 else {"anyOf": solid} if solid else {"type": "NULL"}
        return {**result, "nullable": True} if nullable and solid else result

    def _typed(self, schema: JsonObject, kind: str, trail: tuple[str, ...], depth: int, hints: list[str]) -> JsonObject:
        name = _TYPES[kind]
        result: JsonObject = {"type": name}
        self._keep_values(result, schema, hints)
        self._keep_bounds(result, schema, hints)
        if name == "ARRAY":
            items = self.node(schema.get("items", {}), trail, depth + 1) if "prefixItems" not in schema else {}
            result["items"] = items
        if name == "OBJECT":
            self._keep_properties(result, schema, trail, depth, hints)
        return result

    def _keep_properties(
        self, result: JsonObject, schema: JsonObject, trail: tuple[str, ...], depth: int, hints: list[str]
    ) -> None:
        properties = schema.get("properties") or self._properties_of_branches(schema)
        if isinstance(properties, dict) and properties:
            result["properties"] = {key: self.node(item, trail, depth + 1) for key, item in properties.items()}
            required = [key for key in _listed(schema.get("required")) if key in properties]
            if required:
                result["required"] = required
        if isinstance(schema.get("additionalProperties"), dict) or schema.get("patternProperties"):
            hints.append("arbitrary keys allowed")

    def _properties_of_branches(self, schema: JsonObject) -> JsonObject:
        """An object that is one of several: all their properties, none of them required."""
        found: JsonObject = {}
        for branch in _listed(schema.get("anyOf")):
            target = resolve(branch.get("$ref"), self._definitions) if isinstance(branch, dict) else None
            node = target if isinstance(target, dict) else branch
            properties = node.get("properties") if isinstance(node, dict) else None
            for key, item in properties.items() if isinstance(properties, dict) else ():
                found[key] = item if found.get(key, item) == item else {"anyOf": [found[key], item]}
        return found

    def _keep_values(self, result: JsonObject, schema: JsonObject, hints: list[str]) -> None:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(values, list) or not values:
            return
        strings = [value for value in values if isinstance(value, str)]
        keeps = result["type"] == "STRING" and "" not in strings and self._level < LEVELS
        if keeps and strings:
            result["enum"] = strings
        else:
            hints.append("one of: " + ", ".join(str(value) for value in values[:50]))

    def _keep_bounds(self, result: JsonObject, schema: JsonObject, hints: list[str]) -> None:
        kind = result["type"]
        allowed = schema.get("format") in _FORMATS.get(kind, ())
        if isinstance(schema.get("format"), str):
            if allowed and schema["format"] != "enum":
                result["format"] = schema["format"]
            else:
                hints.append(f"format: {schema['format']}")
        for key in _BOUNDS.get(kind, ()):
            if key in schema and (self._level > 1 or not isinstance(schema[key], int | float | str)):
                hints.append(f"{key}: {schema[key]}")
            elif key in schema:
                result[key] = schema[key]
        for key, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            limit = schema.get(key)
            if kind in ("INTEGER", "NUMBER") and isinstance(limit, int | float) and not isinstance(limit, bool):
                hints.append(f"{key}: {limit}")
                if self._level == 1 and bound not in result:
                    whole = math.floor(limit) if step > 0 else math.ceil(limit)
                    result[bound] = whole + step if kind == "INTEGER" else limit

    def _described(self, result: JsonObject, schema: JsonObject, hints: list[str]) -> JsonObject:
        texts = [schema["description"]] if isinstance(schema.get("description"), str) else []
        if isinstance(result.get("description"), str) and result["description"] not in texts:
            texts.append(result["description"])
        if hints:
            texts.append(f"({'; '.join(dict.fromkeys(hints))})")
        return {**result, "description": " ".join(texts)} if texts else result


def _types_of(schema: JsonObject) -> list[str]:
    """The types that a node names, without null; guessed from what else it says where it names none."""
    named = [kind for kind in _listed(schema.get("type")) if isinstance(kind, str) and kind in _TYPES]
    if named:
        return [kind for kind in named if kind != "null"] or ["null"]
    if isinstance(schema.get("const"), str) or (
        isinstance(schema.get("enum"), list) and all(isinstance(value, str) for value in schema["enum"])
    ):
        return ["string"]
    return ["object"] if "properties" in schema else ["array"] if "items" in schema else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
