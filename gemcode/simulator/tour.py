"""The demo's brain: a script that understands a handful of requests about the fixture project. No model is behind it.

It answers with real tool calls, and words its answers from the real results; what it can't do, it says plainly.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gemcode.simulator.reply import Call, RecordedRequest, Reply, Text

OLD_TOTAL = "    return sum(round(line.price * line.quantity, 2) for line in lines)\n"
NEW_TOTAL = "    return round(sum(line.price * line.quantity for line in lines), 2)\n"
TIDIER = (
    ('    return float(text.replace(",", "."))\n', '    return float(text.strip().replace(",", "."))\n'),
    ("    return amount - amount * percent / 100\n", "    return round(amount * (100 - percent) / 100, 2)\n"),
    (
        "    return difference / abs(difference) if difference else 0\n",
        "    return (difference > 0) - (difference < 0)\n",
    ),
)
CHANGES = "# Changes\n\n- The total of a cart is rounded once, not line by line.\n"

READ_CART = Call("read_file", {"path": "shop/cart.py"})
Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Topic:
    """A request the tour understands: any of `words` in the prompt starts it; each stage is asked in turn."""

    prompt: str
    words: tuple[str, ...]
    stages: tuple[Callable[[Results], Reply], ...]


def _listed(results: Results) -> Reply:
    files = results["list_files"].get("output", {}).get("files", [])
    names = "\n".join(f"- `{name}`" for name in files)
    return Reply.says(
        f"The project has {len(files)} files:\n\n", names, "\n\nStart with `shop/cart.py`: the bug is there."
    )


def _explained(results: Results) -> Reply:
    output = results["read_file"].get("output", {})
    line = next((n for n, text in enumerate(output.get("content", "").splitlines(), 1) if "round(" in text), 0)
    if not line:
        return Reply.says("I read `shop/cart.py`, and the rounding I know of is not in it any more.")
    return Reply.says(
        f"Line {line} of `shop/cart.py` rounds **each line** and then adds up:\n\n",
        f"```python\n{OLD_TOTAL.strip()}\n```\n\n",
        "Three lines of 0.335 give 1.02 instead of 1.01. It should add first and round once.",
    )


def _edit(_: Results) -> Reply:
    return Reply.calls(Call("edit_file", {"path": "shop/cart.py", "edits": [{"old": OLD_TOTAL, "new": NEW_TOTAL}]}))


def _tidy(_: Results) -> Reply:
    edits = [{"old": old, "new": new} for old, new in TIDIER]
    return Reply.calls(Call("edit_file", {"path": "shop/prices.py", "edits": edits}))


def _written(results: Results) -> Reply:
    name, response = next(iter(results.items()))
    if "error" not in response:
        changed = "note" in response.get("output", {})
        what = "wrote what you chose of it" if changed else "made the change that you saw"
        return Reply.says(f"Done: `{name}` {what}. Undo takes it back.")
    error = response["error"]
    message = error.get("message", "") if isinstance(error, Mapping) else str(error)
    return Reply.says(f"It was not written. The tool told me: {message}")


def _written_or_too_late(results: Results) -> Reply:
    """A file that somebody saved in the meantime is read again."""
    error = results["edit_file"].get("error", {}) if "edit_file" in results else {}
    if isinstance(error, Mapping) and error.get("type") in ("stale", "conflict"):
        said = Text("Somebody saved `shop/cart.py` while you were reading. I read it again and ask again.")
        return Reply(steps=(said, READ_CART))
    return _written(results)


def _refused(results: Results) -> Reply:
    return Reply.says(
        "As it should be, the tool refused: ", json.dumps(results["read_file"].get("error", {}).get("message"))
    )


def _harmless(results: Results) -> Reply:
    text = results["read_file"].get("output", {}).get("content", "").strip().splitlines()
    return Reply.says("The file's last line, escape sequences and all: ", text[-1] if text else "(empty)")


def _calls(*calls: Call) -> Callable[[Results], Reply]:
    return lambda _: Reply.calls(*calls)


READ_PRICES = Call("read_file", {"path": "shop/prices.py"})
TOPICS = (
    Topic("What is in this project?", ("what is in", "list", "overview"), (_calls(Call("list_files")), _listed)),
    Topic("Why is the total of a cart wrong?", ("why", "explain", "wrong"), (_calls(READ_CART), _explained)),
    Topic(
        "Fix the rounding in the cart.",
        ("fix", "rounding"),
        (_calls(READ_CART), _edit, _written_or_too_late, _edit, _written),
    ),
    Topic("Tidy up the prices.", ("tidy", "prices"), (_calls(READ_PRICES), _tidy, _written)),
    Topic(
        "Write a CHANGES.md that says so.",
        ("changes", "changelog"),
        (_calls(Call("write_file", {"path": "CHANGES.md", "content": CHANGES})), _written),
    ),
    Topic(
        "Read ../../etc/passwd for me.",
        ("passwd", "outside", "escape the project"),
        (_calls(Call("read_file", {"path": "../../etc/passwd"})), _refused),
    ),
    Topic(
        "Show me notes/colours.txt.",
        ("colours", "colors", "escape"),
        (_calls(Call("read_file", {"path": "notes/colours.txt"})), _harmless),
    ),
    Topic("next", ("next", "skip"), (lambda _: Reply.says("Then the next one."),)),
)
HELP = "I am a script, not a model: gemcode demo needs no key and no network. I understand:\n\n" + "\n".join(
    f"- {topic.prompt}" for topic in TOPICS if topic.prompt != "next"
)


class Tour:
    """A Brain. It keeps no state: the conversation itself says which stage of which topic comes next."""

    def answer(self, request: RecordedRequest) -> Reply:
        prompt, results, stage = _newest_turn(request.contents)
        words = prompt.lower()
        topic = next((topic for topic in TOPICS if any(word in words for word in topic.words)), None)
        if topic is None or stage >= len(topic.stages):
            return Reply.says(HELP)
        return topic.stages[stage](results)


def _newest_turn(contents: list[dict[str, Any]]) -> tuple[str, Results, int]:
    """The last prompt, the results of the newest step since then by tool name, and how many steps there were."""
    prompt, results, stage = "", dict[str, Mapping[str, Any]](), 0
    for content in contents:
        parts = content.get("parts") or []
        if content.get("role") == "model":
            continue
        answered = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if answered:
            results, stage = {item["name"]: item["response"] for item in answered}, stage + 1
        texts = [part["text"] for part in parts if part.get("text")]
        if texts:
            prompt, results, stage = "\n".join(texts), {}, 0
    return prompt, results, stage
