"""Settings: defaults < user file < environment < flags. The project's own file may only tighten, never loosen.

Nothing here opens the project; its file comes in as text.
"""

import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import platformdirs

from gemcode.agent.bounds import MAXIMA, Bounds
from gemcode.agent.errors import UsageError
from gemcode.agent.policy import Mode
from gemcode.agent.redaction import KEY_VARIABLES
from gemcode.frozen import frozen

DEFAULT_MODEL = "gemini-3.8-flash"
PROJECT_FILE = ".gemcode.toml"
_MOST_NAMED = 5  # names of refused settings in one warning
MOST_PROJECT_TEXT = 64 * 1024  # bytes of a project's own settings or instructions that are looked at


class Secret:
    """A key that does not show itself: not in a repr, not in a traceback, not in a log."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return f"…{self._value[-4:]}" if len(self._value) >= 12 else "…"

    __repr__ = __str__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is neither copied nor stored")


@frozen
class Settings:
    """Everything a command needs to know, decided once."""

    project: Path
    config_home: Path
    state_home: Path
    model: str = DEFAULT_MODEL
    fallback_model: str = ""  # used, and said, only when the model can't be reached
    key: Secret | None = None
    key_source: str = ""
    base_url: str = ""
    base_url_source: str = ""
    approve: Mode | None = None  # None: ask on a terminal, none without one
    strict_arguments: bool = True
    thinking_level: str = ""
    max_steps: int = 50
    max_cost: float | None = None
    timeout: float | None = None
    read_timeout: float = 300.0
    session_days: float = 90.0  # unused sessions older than that are deleted
    bounds: Bounds = Bounds()
    verbose: bool = False
    warnings: tuple[str, ...] = ()


# What config.toml may hold, besides [limits]: name → type.
_USER_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "model": str,
    "fallback_model": str,
    "approve": str,
    "base_url": str,
    "api_key": str,
    "strict_arguments": bool,
    "thinking_level": str,
    "max_steps": int,
    "max_cost": (int, float),
    "timeout": (int, float),
    "read_timeout": (int, float),
    "session_days": (int, float),
}

_LEAST: Mapping[str, float] = {"max_steps": 1, "max_cost": 0, "timeout": 0.1, "read_timeout": 0.1, "session_days": 1}
_LIMITS = frozenset(item.name for item in fields(Bounds))


def homes(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The directories of configuration and state."""
    if home := environment.get("GEMCODE_HOME"):
        base = Path(home).expanduser().absolute()
        return base / "config", base / "state"
    return (
        Path(platformdirs.user_config_dir("gemcode", appauthor=False)),
        Path(platformdirs.user_state_dir("gemcode", appauthor=False)),
    )


def load(project: Path, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """The settings of one command. `flags` holds only what the user gave."""
    config_home, state_home = homes(environment)
    settings = Settings(project=project, config_home=config_home, state_home=state_home)
    settings = _with_user_file(settings, config_home / "config.toml")
    settings = _with_environment(settings, environment)
    settings = replace(settings, **flags)
    if any(character.isspace() for character in settings.model) or not settings.model:
        raise UsageError(f"{settings.model!r} is not a model name.", "See the names with: gemcode models")
    check_base_url(settings.base_url, settings.base_url_source)
    return settings


def _with_user_file(settings: Settings, path: Path) -> Settings:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read().decode("utf-8")
    except FileNotFoundError:
        return settings
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}.", "Correct the file, or move it away.") from None
    if status.st_mode & 0o002 or status.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"{path} can be changed by others, so it is not used.", f"Run: chmod go-w {path}")
    values = _parse(text, str(path))
    limits = values.pop("limits", {})
    changes: dict[str, Any] = {}
    for name, value in values.items():
        place = _place(path, text, name)
        if name not in _USER_KEYS:
            raise UsageError(f"{place}: unknown setting {name!r}.", f"Known ones: {', '.join(_USER_KEYS)}, [limits].")
        _check_type(place, name, value, _USER_KEYS[name])
        if name in _LEAST and not value >= _LEAST[name]:  # written so that nan fails too
            raise UsageError(f"{place}: {name} must be at least {_LEAST[name]:g}.", "Correct the file.")
        changes[name] = value
    if "approve" in changes:
        try:
            changes["approve"] = parse_mode(changes["approve"])
        except UsageError as error:
            raise UsageError(f"{_place(path, text, 'approve')}: {error.message}", error.hint) from None
    if "api_key" in changes:
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise UsageError(f"{path} holds a key, but others can read it.", f"Run: chmod 600 {path}")
        changes |= _key(changes.pop("api_key"), str(path))
    if "base_url" in changes:
        changes["base_url_source"] = str(path)
    return replace(settings, bounds=_bounded(settings.bounds, limits, lambda name: _place(path, text, name)), **changes)


def _with_environment(settings: Settings, environment: Mapping[str, str]) -> Settings:
    changes: dict[str, Any] = {}
    for variable in KEY_VARIABLES:
        if value := environment.get(variable, "").strip():
            changes |= _key(value, variable)
            break
    if model := environment.get("GEMCODE_MODEL"):
        changes["model"] = model
    if url := environment.get("GOOGLE_GEMINI_BASE_URL"):
        changes |= {"base_url": url, "base_url_source": "GOOGLE_GEMINI_BASE_URL"}
    return replace(settings, **changes)


def _key(text: str, source: str) -> dict[str, Any]:
    key = text.strip()
    if not key.isascii() or not key.isprintable() or " " in key:  # a header can't carry it, and would say so with it
        raise UsageError(f"The API key from {source} holds characters that no key has.", "Copy it again.")
    return {"key": Secret(key), "key_source": source} if key else {}


def tightened(settings: Settings, text: str) -> Settings:
    """The settings with the project's own file, which may lower limits and nothing else. The rest is named in a
    warning and ignored: a repository does not configure the safety or the bill of the person who opens it."""
    try:
        if len(text.encode("utf-8", "replace")) > MOST_PROJECT_TEXT:
            raise UsageError(f"{PROJECT_FILE} is larger than {MOST_PROJECT_TEXT // 1024} KiB.")
        values = _parse(text, PROJECT_FILE)
    except UsageError as error:
        return replace(settings, warnings=(*settings.warnings, f"{error.message} It is ignored."))
    bounds, refused = settings.bounds, list[str]()
    limits = values.pop("limits") if isinstance(values.get("limits"), dict) else {}
    for name, value in limits.items():
        current = getattr(bounds, name) if name in _LIMITS else 0
        if _is_number(value, current) and 0 < value <= current:
            bounds = replace(bounds, **{name: type(current)(value)})
        else:
            refused.append(name)
    warnings = list(settings.warnings)
    if values:
        warnings.append(f"{PROJECT_FILE} sets {_named(values)}: a project can't decide that. It is ignored.")
    if refused:
        warnings.append(
            f"{PROJECT_FILE} sets [limits] {_named(refused)}: a project may only lower them. It is ignored."
        )
    return replace(settings, bounds=bounds, warnings=tuple(warnings))


def _named(names: Iterable[str]) -> str:
    """The names, a few of them: the project chose them, and may have chosen many."""
    first, *more = [repr(name[:60]) for name in names]
    shown = ", ".join([first, *more[: _MOST_NAMED - 1]])
    return f"{shown} and {len(more) + 1 - _MOST_NAMED} more" if len(more) >= _MOST_NAMED else shown


def _is_number(value: object, like: float) -> bool:
    """Whether a limit is a number, and a whole one where it must be."""
    return not isinstance(value, bool) and isinstance(value, int if isinstance(like, int) else int | float)


def check_base_url(url: str, source: str) -> None:
    """The endpoint must be https, or http on this machine: the key travels there."""
    if not url:
        return
    hint = "Use https://…, or http:// on this machine (127.0.0.1, localhost)."
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise UsageError(f"The endpoint (from {source}) holds a user name or a password.", "Take it out of the URL.")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise UsageError(f"The endpoint {url!r} (from {source}) is not a URL.", hint) from None
    loopback = host == "localhost" or _is_loopback_address(host)
    if not url.isprintable() or " " in url or "\\" in url or parts.query or parts.fragment:
        raise UsageError(f"The endpoint {url!r} (from {source}) has more to it than an address.", hint)
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and loopback)):
        raise UsageError(f"The endpoint {url!r} (from {source}) is neither https nor on this machine.", hint)


def _is_loopback_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, such as 127.0.0.1.example.com


def parse_mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        choices = ", ".join(mode.value for mode in Mode)
        raise UsageError(f"{text!r} is not an approval mode.", f"Use one of: {choices}.") from None


def require_key(settings: Settings) -> Secret:
    if settings.key is None:
        raise UsageError(
            "No API key.", "Set GEMINI_API_KEY (get one at aistudio.google.com/apikey), or try: gemcode demo"
        )
    return settings.key


def _parse(text: str, source: str) -> dict[str, Any]:
    import tomllib  # only where there is a file: most have none

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not only TOMLDecodeError: a number may have too many digits
        raise UsageError(f"{source} is not valid TOML: {error}.", "Correct the file, or move it away.") from None


def _check_type(source: str, name: str, value: object, wanted: type | tuple[type, ...]) -> None:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UsageError(f"{source}: {name!r} has the wrong type.", "See docs/configuration.md.")


def _place(path: Path, text: str, name: str) -> str:
    """The file, and the line that sets the name, for a person to go to."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.split("=")[0].strip(" \t'\"[]") == name:
            return f"{path}, line {number}"
    return str(path)


def _bounded(bounds: Bounds, limits: object, place: Callable[[str], str]) -> Bounds:
    if not isinstance(limits, dict):
        raise UsageError(f"{place('limits')}: [limits] is not a table.", "See docs/configuration.md.")
    for name, value in limits.items():
        if name not in _LIMITS:
            raise UsageError(f"{place(name)}: unknown limit {name!r}.", f"Known ones: {', '.join(sorted(_LIMITS))}.")
        most = getattr(MAXIMA, name)
        if not _is_number(value, most):
            raise UsageError(f"{place(name)}: {name!r} has the wrong type.", "See docs/configuration.md.")
        if not 0 < value <= most:
            raise UsageError(f"{place(name)}: {name} must be above 0 and at most {most}.", "Correct the file.")
        bounds = replace(bounds, **{name: type(most)(value)})
    return bounds
