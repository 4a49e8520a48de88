"""The floor: google-genai used as well as one can, with nothing around it. Run as a script: bare.py MODE [NUMBER].

No gc while importing, contents as raw JSON, and a hard exit after the last flush: all that gemcode may do as well.
"""

import gc
import os
import sys

gc.disable()

from google import genai  # noqa: E402 - after gc is off: that is the point
from google.genai import types  # noqa: E402

gc.freeze()
gc.enable()

MODEL = "gemini-3.8-flash"
CONFIG = types.GenerateContentConfig(
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), automatic_continuation=False
)


def ask(client: genai.Client) -> None:
    """One prompt; the answer goes to stdout as it comes."""
    for chunk in client.models.generate_content_stream(model=MODEL, contents="hello", config=CONFIG):
        sys.stdout.write(chunk.text or "")
    sys.stdout.flush()


def steps(client: genai.Client) -> None:
    """Answer calls of read_file until there are none."""
    contents: list[dict[str, object]] = [{"role": "user", "parts": [{"text": "hello"}]}]
    while True:
        options = types.HttpOptions(extra_body={"contents": contents})
        config = types.GenerateContentConfig(
            http_options=options,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )
        parts: list[types.Part] = []
        for chunk in client.models.generate_content_stream(model=MODEL, contents=".", config=config):
            for candidate in chunk.candidates or ():
                parts += (candidate.content and candidate.content.parts) or ()
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return
        contents.append({"role": "model", "parts": [part.model_dump(mode="json", exclude_none=True) for part in parts]})
        contents.append({"role": "user", "parts": [_result(call) for call in calls]})


def _result(call: types.FunctionCall) -> dict[str, object]:
    with open((call.args or {})["path"], encoding="utf-8") as file:
        response = {"output": file.read()}
    return {"functionResponse": {"id": call.id, "name": call.name, "response": response}}


def talk(client: genai.Client) -> None:
    """A prompt per line of stdin."""
    for line in sys.stdin:
        for chunk in client.models.generate_content_stream(model=MODEL, contents=line, config=CONFIG):
            sys.stdout.write(chunk.text or "")
        sys.stdout.flush()


if __name__ == "__main__":
    made = genai.Client(
        api_key="bench-key-0000",
        vertexai=False,
        http_options=types.HttpOptions(base_url=os.environ["GOOGLE_GEMINI_BASE_URL"]),
    )
    {"ask": ask, "steps": steps, "talk": talk}[sys.argv[1]](made)
    sys.stdout.flush()
    os._exit(0)
