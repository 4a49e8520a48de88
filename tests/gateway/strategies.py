"""Hypothesis strategies: JSON Schemas as clients write them, and JSON values."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["path", "mode", "items", "a", "b", "c", "ünï", "$x", "with space"])
SCALARS = st.none() | st.booleans() | st.integers(-100, 100) | st.text(max_size=6)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NOISE = st.fixed_dictionaries(
    {},
    optional={
        "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
        "$comment": st.text(max_size=5),
        "title": st.text(max_size=5),
        "description": st.text(max_size=20),
        "default": JSON,
        "examples": st.lists(SCALARS, max_size=2),
    },
)


def _strings() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.just({"type": "string"}),
        st.builds(
            lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
            st.integers(0, 3),
            st.integers(0, 5),
        ),
        st.sampled_from(
            [
                {"type": "string", "format": "uri"},
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^[a-z]+$"},
            ]
        ),
        st.builds(
            lambda values: {"type": "string", "enum": values},
            st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True),
        ),
        st.builds(lambda value: {"const": value}, st.text(max_size=4) | st.integers(-5, 5) | st.booleans()),
        st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
    )


def _numbers() -> st.SearchStrategy[dict[str, Any]]:
    bound = st.integers(-50, 50)
    return st.one_of(
        st.sampled_from([{"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {}]),
        st.builds(
            lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span}, bound, st.integers(0, 50)
        ),
        st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, bound),
        st.builds(lambda high: {"type": "number", "exclusiveMaximum": high}, bound),
        st.builds(lambda of: {"type": "integer", "multipleOf": of}, st.integers(1, 5)),
        st.sampled_from([{"type": ["string", "null"]}, {"type": ["integer", "string"]}]),
    )


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        properties = draw(st.dictionaries(NAMES, inner, max_size=3))
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if properties and draw(st.booleans()):
            schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)), max_size=2, unique=True))
        extra = draw(st.sampled_from([None, False, True, {}, {"type": "string"}]))
        if extra is not None:
            schema["additionalProperties"] = extra
        if draw(st.booleans()):
            schema["propertyNames"] = {"type": "string"}
        return schema

    return build()


def _composites(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        _objects(inner),
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(1, 3)),
        st.builds(lambda items: {"type": "array", "prefixItems": items}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"oneOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda schema, noise: {**noise, **schema}, inner, NOISE),
        st.builds(lambda noise: {**noise, "$ref": "#/$defs/shared"}, NOISE),
    )


SCHEMAS = st.recursive(_strings() | _numbers(), _composites, max_leaves=10)


@st.composite
def tool_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of a tool: an object at the root, with a definition that parts of it may point at."""
    schema = {**draw(NOISE), **draw(_objects(SCHEMAS)), **draw(st.sampled_from([{}, {"$id": "urn:x"}]))}
    place = draw(st.sampled_from(["$defs", "definitions"]))
    schema[place] = {"shared": draw(_strings() | _numbers())}
    return schema if place == "$defs" else _rename_references(schema)


def _rename_references(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "#/definitions/shared" if key == "$ref" else _rename_references(item) for key, item in value.items()
        }
    return [_rename_references(item) for item in value] if isinstance(value, list) else value


@st.composite
def instances(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """A value that is likely to fit the schema; whoever uses it must check that it does."""
    return _instance(draw, schema, schema.get("$defs") or schema.get("definitions") or {}, 0)


def _instance(draw: st.DrawFn, schema: Any, definitions: dict[str, Any], depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 8:
        return draw(SCALARS)
    if "$ref" in schema:
        return _instance(draw, definitions.get("shared"), definitions, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _instance(draw, draw(st.sampled_from(schema[key])), definitions, depth + 1)
    kind = schema.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    match kind:
        case "object":
            return _object(draw, schema, definitions, depth)
        case "array":
            items = schema.get("prefixItems") or [schema.get("items")] * draw(st.integers(0, 2))
            return [_instance(draw, item, definitions, depth + 1) for item in items]
        case "string":
            if "pattern" in schema:
                return draw(st.sampled_from(["abc", "z"]))
            return draw(st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 8)))
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -51) + 1)
            high = schema.get("maximum", schema.get("exclusiveMaximum", 200) - 1)
            number = draw(st.integers(low, max(low, high)))
            return number - number % schema["multipleOf"] if "multipleOf" in schema else number
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
    return draw(SCALARS)


def _object(draw: st.DrawFn, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    made = {}
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or draw(st.booleans()):
            made[name] = _instance(draw, inner, definitions, depth + 1)
    if schema.get("additionalProperties") is not False and draw(st.booleans()):
        made["extra"] = draw(st.text(max_size=3))
    return made
