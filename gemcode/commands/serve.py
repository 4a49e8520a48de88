"""`gemcode serve` and `gemcode convert`: other clients on Gemini, and their tool formats one into another."""

import sys
from pathlib import Path

from gemcode import app
from gemcode.agent.errors import UsageError
from gemcode.terminal.safe import escape, write_stderr, write_stdout


def run(options: app.Options, host: str, port: int, token_file: Path | None, model_map: str) -> int:
    """Serve until a signal ends it."""
    from gemcode.gateway.config import GatewayConfig, load_token, new_token, parse_model_map
    from gemcode.gateway.server import serve

    settings = app.load_settings(options)
    gateway = GatewayConfig(
        gemini=app.gemini_settings(settings),
        token=load_token(token_file) if token_file else new_token(),
        host=host,
        port=port,
        model=settings.model,
        model_map=parse_model_map(model_map),
        state=settings.state_home / "gateway",
    )
    return serve(gateway, lambda text: write_stdout(text + "\n"), lambda text: write_stderr(f"! {escape(text)}\n"))


def convert(file: str, source: str, target: str, *, strict: bool) -> int:
    """Convert what a file (or stdin, as `-`) holds."""
    from gemcode.gateway.convert import convert as translate

    result = translate(_read(file), source, target, strict=strict)
    for warning in result.warnings:
        write_stderr(f"! {escape(warning)}\n")
    write_stdout(result.text if result.text.endswith("\n") else result.text + "\n")
    return 0


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}.", "Name a JSON file, or - for stdin.") from None
