"""Arguments that arrive in pieces (`partialArgs`), put together. Pure.

The Developer API sends arguments whole; the sibling service does not, and a proxy may stand in front of either.
"""

import re
from itertools import pairwise
from typing import Any

from gemcode.agent.messages import JsonObject

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,5})\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_LARGEST_INDEX = 10_000  # a path from the network must not make us allocate without end


class PartialCall:
    """One call whose arguments are still coming."""

    def __init__(self, part: JsonObject) -> None:
        call = part["functionCall"]
        self._side = {key: value for key, value in part.items() if key != "functionCall"}
        self._call = {key: value for key, value in call.items() if key in ("id", "name")}
        self._args: JsonObject = {}
        self.absorb(call)

    def absorb(self, call: JsonObject) -> bool:
        """Take one more piece; True when it was the last."""
        if isinstance(call.get("args"), dict):
            self._args.update(call["args"])
        pieces = call.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict) and isinstance(piece.get("jsonPath"), str):
                self._place(piece)
        return not call.get("willContinue")

    def whole_part(self) -> JsonObject:
        """The part as the service would have sent it in one piece."""
        return {"functionCall": {**self._call, "args": self._args}, **self._side}

    def _place(self, piece: JsonObject) -> None:
        key = next((key for key in _VALUES if key in piece), None)
        path = _steps(piece["jsonPath"])
        if key is None or not path:
            return
        value = None if key == "nullValue" else piece[key]
        holder: Any = self._args
        for step, following in pairwise(path):
            child = _get(holder, step)
            if not isinstance(child, list if isinstance(following, int) else dict):
                child = [] if isinstance(following, int) else {}
                _put(holder, step, child)
            holder = child
        before = _get(holder, path[-1])
        if isinstance(before, str) and isinstance(value, str):
            value = before + value
        _put(holder, path[-1], value)


def _steps(path: str) -> list[str | int]:
    """`$.a[0].b` → ["a", 0, "b"]; nothing for a path that is not understood."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path):
        match = _STEP.match(path, position)
        if match is None or (match[2] and int(match[2]) > _LARGEST_INDEX):
            return []
        steps.append(int(match[2]) if match[2] else match[1] or match[3] or match[4] or "")
        position = match.end()
    return steps if steps and isinstance(steps[0], str) else []


def _get(holder: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return holder[step] if step < len(holder) else None
    return holder.get(step)


def _put(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(step, int):
        holder.extend([None] * (step + 1 - len(holder)))
    holder[step] = value
