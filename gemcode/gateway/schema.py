"""JSON Schema for `parametersJsonSchema`: the light normalizer. It only ever widens, and only ever looks at a schema.

What is valid for the client's schema stays valid for the result. The lossy form for `parameters` is in lossy.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

from gemcode.agent.messages import JsonObject

DEPTH_LIMIT = 40
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_DROPPED = frozenset({"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$vocabulary", "examples"})
_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_KEEPS_BOOLEAN = frozenset({"additionalProperties"})
# Keys that mean something only beside another one of the same branch: taken over one by one they would narrow.
_NOT_MERGED = frozenset({"if", "then", "else", "contains", "minContains", "maxContains", "dependentSchemas"})
_STRONGER: dict[str, Callable[[Any, Any], Any]] = {
    key: max if key.startswith(("min", "exclusiveMin")) else min
    for key in (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    )
}


def normalize(schema: object) -> JsonObject:
    """A schema of an object that Gemini reads as meant: no `$schema`, no `oneOf`, no `allOf`, local references only."""
    root = schema if isinstance(schema, dict) else {}
    definitions = {**_definitions(root, "definitions"), **_definitions(root, "$defs")}
    result = _node({key: value for key, value in root.items() if key not in ("definitions", "$defs")}, definitions, 0)
    if "$ref" in result:
        result = {"anyOf": [result]}
    used = _used_definitions(result, definitions)
    result = {**result, "type": "object"}  # arguments are always an object
    return {**result, "$defs": used} if used else result


def losses(schema: object, path: str = "") -> Iterator[tuple[str, str]]:
    """What normalize can't keep, as (path, words): references out of the schema, and exclusive or joined branches."""
    root = schema if isinstance(schema, dict) else {}
    definitions = {**_definitions(root, "definitions"), **_definitions(root, "$defs")}
    yield from _losses(root, definitions, path, 0)


def _losses(node: Any, definitions: JsonObject, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEPTH_LIMIT:
        yield path, "is nested too deeply"
        return
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _losses(item, definitions, f"{path}[{index}]", depth + 1)
    if not isinstance(node, dict):
        return
    if "$ref" in node and resolve(node["$ref"], definitions) is None:
        yield f"{path}.$ref", f"{str(node['$ref'])[:80]!r} is not a definition of this schema"
    if len(node.get("oneOf") or ()) > 1:
        yield f"{path}.oneOf", "becomes anyOf: that only one may match is lost"
    if len(node.get("allOf") or ()) > 1:
        yield f"{path}.allOf", "is joined as far as it can be"
    for key in (*_MAPS, "definitions"):
        for name, item in node[key].items() if isinstance(node.get(key), dict) else ():
            yield from _losses(item, definitions, f"{path}.{key}.{name}", depth + 1)
    for key in (*_LISTS, *_SINGLE, "oneOf", "allOf"):
        if isinstance(node.get(key), dict | list):
            yield from _losses(node[key], definitions, f"{path}.{key}", depth + 1)


def resolve(reference: object, definitions: JsonObject) -> Any:
    """What a local reference names, or None."""
    for prefix in ("#/$defs/", "#/definitions/"):
        if isinstance(reference, str) and reference.startswith(prefix):
            return definitions.get(_unescape(reference.removeprefix(prefix)))
    return None


def _definitions(root: JsonObject, key: str) -> JsonObject:
    found = root.get(key)
    return found if isinstance(found, dict) else {}


def _unescape(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~").replace("%25", "%")


def _used_definitions(result: JsonObject, definitions: JsonObject) -> JsonObject:
    """The definitions that the result points at, normalized, and those that they point at."""
    used: JsonObject = {}
    waiting = _references(result)
    while waiting:
        name = waiting.pop()
        if name not in used:
            used[name] = _node(definitions[name], definitions, 1)
            waiting |= _references(used[name]) - used.keys()
    return {name: used[name] for name in sorted(used)}


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in _references(item)}
    if not isinstance(node, dict):
        return set()
    found = {name for value in node.values() for name in _references(value)}
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        found.add(_unescape(reference.removeprefix("#/$defs/")))
    return found


def _node(schema: Any, definitions: JsonObject, depth: int) -> JsonObject:
    if not isinstance(schema, dict) or depth > DEPTH_LIMIT:
        return {}
    node = {key: value for key, value in schema.items() if key not in _DROPPED}
    node = _merge_all_of(node, definitions)
    _modernize(node)
    if "oneOf" in node:
        branches = node.pop("oneOf")
        if isinstance(branches, list) and branches and "anyOf" not in node:
            node["anyOf"] = branches
    result = {key: _value(key, value, definitions, depth) for key, value in node.items()}
    if not result.get("anyOf", True):
        del result["anyOf"]
    return _lone_reference(result, definitions)


def _modernize(node: JsonObject) -> None:
    """Spellings that the service passes over, in those that it heeds; a type that does not exist says nothing."""
    constant = node.get("const")
    if isinstance(constant, str) or _is_number(constant):
        del node["const"]
        node["enum"] = [constant]
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        node.pop("additionalItems", None)
    types = node["type"] if isinstance(node.get("type"), list) else [node.get("type")]
    if "type" in node and not (types and all(isinstance(kind, str) and kind in TYPES for kind in types)):
        del node["type"]


def _value(key: str, value: Any, definitions: JsonObject, depth: int) -> Any:
    if key in _MAPS:
        return {name: _node(item, definitions, depth + 1) for name, item in value.items()} if _is(value, dict) else {}
    if key in _LISTS:
        return [_node(item, definitions, depth + 1) for item in value] if _is(value, list) else []
    if key in _SINGLE:
        if isinstance(value, bool) and key in _KEEPS_BOOLEAN:
            return value
        return _node(value, definitions, depth + 1)
    if key == "required":
        return [name for name in value if isinstance(name, str)] if _is(value, list) else []
    return value


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind)


def _lone_reference(node: JsonObject, definitions: JsonObject) -> JsonObject:
    """A reference may stand only beside `$`-keys: what else is there moves around it. Others than local ones go."""
    if "$ref" not in node:
        return node
    reference = node.pop("$ref")
    if resolve(reference, definitions) is None:
        return node
    lone = {"$ref": "#/$defs/" + str(reference).split("/", 2)[2]}
    if not node:
        return lone
    # Where an anyOf stands beside the reference both can't be kept: the anyOf is the one that is dropped.
    return {**node, "anyOf": [lone]}


def _merge_all_of(node: JsonObject, definitions: JsonObject) -> JsonObject:
    """`allOf` is ignored by the service: its branches are taken into the node itself, as far as that only widens."""
    merged, seen = dict(node), 0
    while "allOf" in merged and seen < DEPTH_LIMIT:
        seen += 1
        branches = merged.pop("allOf")
        branches = branches if isinstance(branches, list) else []
        if len(branches) == 1 and isinstance(branches[0], dict) and "$ref" in branches[0] and "$ref" not in merged:
            return {**merged, "$ref": branches[0]["$ref"]}
        for branch in branches:
            target = (
                resolve(branch.get("$ref"), definitions) if isinstance(branch, dict) and "$ref" in branch else branch
            )
            if isinstance(target, dict):
                merged = _merge(merged, target)
    merged.pop("allOf", None)
    return merged


def _merge(left: JsonObject, right: JsonObject) -> JsonObject:
    """Both apply: where one can't be expressed, the left one stays."""
    merged = dict(left)
    for key, value in right.items():
        if key in _NOT_MERGED or key in _DROPPED:
            continue
        if key not in merged:
            merged[key] = value
        elif key == "properties" and _is(merged[key], dict) and _is(value, dict):
            merged[key] = {**value, **merged[key]}
        elif key == "required" and _is(merged[key], list) and _is(value, list):
            merged[key] = [*merged[key], *(name for name in value if name not in merged[key])]
        elif key == "allOf" and _is(merged[key], list) and _is(value, list):
            merged[key] = [*merged[key], *value]
        elif key in _STRONGER and _is_number(merged[key]) and _is_number(value):
            merged[key] = _STRONGER[key](merged[key], value)
    return merged


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
