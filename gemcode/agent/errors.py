"""The exception tree, by who must act. Each is converted once, at the boundary that its comment names.

GemcodeError                    one sentence, one hint, an exit code
├── UsageError                  the user must act: flags, key, configuration (exit 2)
└── ModelError                  the service or the network failed: retryable or not, with a delay
ToolError                       the model must act: becomes the error face of a ToolResult in ToolRegistry.invoke
"""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may rely on: one code per outcome."""

    OK = 0
    API_ERROR = 1
    USAGE = 2
    BLOCKED = 3
    INCOMPLETE = 4
    WRITE_REFUSED = 5
    QUOTA = 6
    INTERRUPTED = 130
    STDOUT_CLOSED = 141


class GemcodeError(Exception):
    """Something a person must know: what happened (one sentence) and what to do next (one hint)."""

    exit_code = ExitCode.API_ERROR

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GemcodeError):
    """A flag, a key, a path or a setting that the user must change."""

    exit_code = ExitCode.USAGE


class ModelError(GemcodeError):
    """The model could not be reached, or refused the request."""

    too_long = False  # the conversation does not fit the model any more: compaction is the remedy

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        exit_code: ExitCode = ExitCode.API_ERROR,
        retryable: bool = False,
        delay: float | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code
        self.retryable = retryable
        self.delay = delay  # seconds the server asked for, if it did
        self.detail = detail  # the raw text, for --verbose


class ToolError(Exception):
    """A tool could not do what was asked. `kind` is stable; `details` are JSON values the model can act on.

    `message` is for the model; `said`, if set, is what the person sees of it instead.
    """

    said = ""

    def __init__(self, kind: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.details: Mapping[str, object] = details

    def as_json(self) -> dict[str, object]:
        return {"type": self.kind, "message": self.message, **self.details}
