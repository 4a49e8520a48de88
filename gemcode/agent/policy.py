"""Who decides on a call: nobody, the person, or the mode. Pure."""

from enum import StrEnum


class Mode(StrEnum):
    """How much passes without a question."""

    ASK = "ask"  # every write asks
    EDITS = "edits"  # ordinary writes pass; files that run later and secrets still ask
    ALL = "all"  # everything passes that is not refused outright
    NONE = "none"  # read-only: write tools are not even declared


class Effect(StrEnum):
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Sensitivity(StrEnum):
    """What the touched name stands for. Names that may never be touched do not get this far."""

    ORDINARY = "ordinary"
    RUNS_LATER = "runs_later"  # hooks, CI, build files: code that runs when nobody looks
    SECRET = "secret"  # noqa: S105 - a class of names, not a password


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


def decide(effect: Effect, sensitivity: Sensitivity, mode: Mode, *, granted: bool = False) -> Verdict:
    """The verdict on one call. `granted`: the person said yes to ordinary writes for the rest of this turn."""
    if effect is Effect.READ:
        if sensitivity is not Sensitivity.SECRET:
            return Verdict.ALLOW
        return Verdict.ALLOW if mode is Mode.ALL else Verdict.ASK
    if mode is Mode.NONE:
        return Verdict.DENY
    if mode is Mode.ALL:
        return Verdict.ALLOW
    if effect is Effect.WRITE and sensitivity is Sensitivity.ORDINARY and (granted or mode is Mode.EDITS):
        return Verdict.ALLOW
    return Verdict.ASK
