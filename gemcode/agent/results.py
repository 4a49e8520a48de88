"""The two faces of a result, made from what a tool gave or why it did not: for the model, and for the person. Pure."""

import posixpath
from typing import TYPE_CHECKING

from gemcode.agent.errors import ToolError
from gemcode.agent.messages import JsonObject, ToolCall, ToolResult
from gemcode.agent.tool import AnyTool, Output

if TYPE_CHECKING:
    from pydantic import ValidationError


def success(call: ToolCall, output: Output, notes: tuple[str, ...]) -> ToolResult:
    response: JsonObject = {"output": output.value}
    if notes:
        response["notes"] = list(notes)
    return ToolResult(call.id, call.name, response, display=output.display)


def failure(call: ToolCall, error: ToolError) -> ToolResult:
    return ToolResult(call.id, call.name, {"error": error.as_json()}, display=error.said or None)


def cancelled(call: ToolCall) -> ToolResult:
    """The result of a call that has none: every call gets one."""
    return failure(call, ToolError("cancelled", "Cancelled by the user."))


def error_of(call: ToolCall, error: Exception) -> ToolError:
    """Whatever a tool raised, as an error that the model can be told."""
    if isinstance(error, ToolError):
        return error
    if isinstance(error, OSError):
        return ToolError("io_error", f"The file system said: {error.strerror or error}.", errno=error.errno)
    return ToolError("internal", f"{call.name} failed: {type(error).__name__}: {error}")


def invalid_arguments(tool: AnyTool, error: "ValidationError") -> ToolError:
    problems = [
        {"argument": ".".join(str(step) for step in item["loc"]) or "(all)", "problem": item["msg"]}
        for item in error.errors(include_url=False, include_input=False)
    ]
    named = ", ".join(str(problem["argument"]) for problem in problems)
    return ToolError(
        "invalid_arguments",
        f"Invalid arguments for {tool.name}: {named}.",
        problems=problems,
        allowed=list(tool.arguments.model_fields),
    )


def subject_of(call: ToolCall) -> str:
    """What a call is about, before anything in it was checked."""
    path = call.args.get("path")
    return posixpath.normpath(path) if isinstance(path, str) and path else call.name
