"""`gemcode simulator`: the built-in Gemini API on this machine, until Ctrl-C."""

import asyncio
import signal
from pathlib import Path

from gemcode.agent.errors import UsageError
from gemcode.simulator.reply import Brain
from gemcode.simulator.scenario import Scenario, ScenarioError, load_scenario
from gemcode.simulator.server import Simulator
from gemcode.simulator.tour import Tour
from gemcode.terminal.safe import escape, write_stdout
from gemcode.terminal.tty import on_signal


def run(scenario: Path | None, port: int) -> int:
    """Without a scenario it answers as the demo's tour does."""
    source: Brain | Scenario = Tour()
    if scenario is not None:
        try:
            source = load_scenario(scenario)
        except ScenarioError as error:
            raise UsageError(str(error), "The format is described in docs/simulator.md.") from None
    try:
        return asyncio.run(_serve(source, port))
    except OSError as error:
        raise UsageError(f"Port {port} can't be used: {error.strerror}.", "Choose another with --port.") from None


async def _serve(source: Brain | Scenario, port: int) -> int:
    async with Simulator(source, port=port) as simulator:
        write_stdout(f"Gemini API simulator on {simulator.url} (Ctrl-C ends it). Use it with:\n")
        write_stdout(f"  export GOOGLE_GEMINI_BASE_URL={simulator.url} GEMINI_API_KEY=simulated-key\n")
        ended = asyncio.Event()
        with on_signal(signal.SIGINT, ended.set), on_signal(signal.SIGTERM, ended.set):
            await ended.wait()
        write_stdout(f"\n{len(simulator.requests)} requests, {len(simulator.violations)} of them rejected.\n")
        for violation in simulator.violations:
            write_stdout(f"  {violation.http_code} {escape(violation.message, single_line=True)}\n")
    return 0
