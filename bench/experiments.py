"""The experiments: each runs the program and its floor in turns, and gives the samples of both."""

import atexit
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.programs import BARE, GEMCODE, PYTHON, Finished, Ground, Terminal, run
from bench.server import Answer, Exchange, ScriptedServer, calls_event, streamed, text_event, whole

Samples = dict[str, list[float]]
CHUNKS = 2_000
STEPS = 300
BARE_ASK = [PYTHON, BARE, "ask"]
ASK = [GEMCODE, "ask", "hello"]
ASK_WITH_FLAGS = [GEMCODE, "ask", "--approve", "edits", "hello"]
SHORT = [whole(text_event("Hello there."))]
PROMPT_READY = b"\x1b[?2004h"  # prompt_toolkit reads keys from here on


@dataclass(slots=True)
class Measured:
    """What was measured, by name: samples of gemcode's, and of the floors that were run in between."""

    samples: Samples = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all experiments share."""

    server: ScriptedServer
    measured: Measured
    quick: bool

    def rounds(self, full: int) -> int:
        return max(3, full // 4) if self.quick else full

    def ground(self) -> Ground:
        """A scratch project; gone when the benchmark ends."""
        ground = Ground(self.server.url)
        atexit.register(ground.remove)
        return ground


def version(bench: Bench) -> None:
    ground = bench.ground()
    for _ in range(bench.rounds(24)):
        bench.measured.add("python", run([PYTHON, "-c", "pass"], ground).wall)
        bench.measured.add("version", _ok(run([GEMCODE, "--version"], ground)).wall)


def ask(bench: Bench) -> None:
    """One prompt, one short answer."""
    ground = bench.ground()
    for _ in range(bench.rounds(24)):
        for name, command in (("bare", BARE_ASK), ("ask", ASK), ("flags", ASK_WITH_FLAGS)):
            exchanges = bench.server.play(SHORT)
            done = _ok(run(command, ground))
            bench.measured.add(f"{name} request", exchanges[0].arrived - done.started)
            bench.measured.add(f"{name} exit", done.ended - exchanges[0].answered)
            bench.measured.add(f"{name} peak", done.peak_kb * 1024)
            bench.measured.add(f"{name} body", exchanges[0].size)


def chat(bench: Bench) -> None:
    """The prompt, and two turns once everything is loaded."""
    ground = bench.ground()
    for _ in range(bench.rounds(12)):
        bench.measured.add("chat python", run([PYTHON, "-c", "pass"], ground).wall)
        exchanges = bench.server.play(SHORT)
        terminal = Terminal([GEMCODE], ground)
        bench.measured.add("chat prompt", terminal.wait_for(PROMPT_READY) - terminal.started)
        terminal.settle(1.5)
        for name in ("chat first enter", "chat enter"):
            begin = len(terminal.output)
            terminal.write(b"hello")
            terminal.settle(0.3)
            sent = terminal.write(b"\r")
            terminal.wait_for(b"there", begin)
            bench.measured.add(name, exchanges[-1].arrived - sent)
            terminal.settle(0.3)
        terminal.write(b"\x04")
        _ok(terminal.finish())
        _bare_talk(bench, ground)


def _bare_talk(bench: Bench, ground: Ground) -> None:
    exchanges = bench.server.play(SHORT)
    terminal = Terminal([PYTHON, BARE, "talk"], ground)
    for name in ("bare first enter", "bare enter"):
        terminal.settle(1.0)
        begin = len(terminal.output)
        sent = terminal.write(b"hello\n")
        terminal.wait_for(b"there", begin)
        bench.measured.add(name, exchanges[-1].arrived - sent)
    terminal.write(b"\x04")
    _ok(terminal.finish())


def steps(bench: Bench) -> None:
    """One ask with many tool steps: from the last byte of an answer to the next request, with audit and session."""
    ground = bench.ground()
    ground.allow_many_steps()
    count = 100 if bench.quick else STEPS
    names = list(_files(ground.project, count))
    script = [whole(calls_event([("read_file", {"path": name})], step)) for step, name in enumerate(names)]
    for _ in range(bench.rounds(8)):
        for name, gaps in _both(bench, ground, [*script, whole(text_event("Done."))]):
            for reach in (1, 10, 100, 300):
                if reach <= count:
                    part = gaps[max(0, reach - 20) : reach] if reach > 10 else gaps[:reach]
                    bench.measured.add(f"{name} step {reach}", sorted(part)[len(part) // 2])
            bench.measured.add(f"{name} step", sorted(gaps)[len(gaps) // 2])


def parallel(bench: Bench) -> None:
    """Ten reads in one step."""
    ground = bench.ground()
    ground.allow_many_steps()
    names = list(_files(ground.project, 300))
    groups = [names[start : start + 10] for start in range(0, 300, 10)]
    script = [
        whole(calls_event([("read_file", {"path": name}) for name in group], step)) for step, group in enumerate(groups)
    ]
    for _ in range(bench.rounds(8)):
        for name, gaps in _both(bench, ground, [*script, whole(text_event("Done."))]):
            bench.measured.add(f"{name} parallel", sorted(gaps)[len(gaps) // 2])


def _both(bench: Bench, ground: Ground, script: list[Answer]) -> Iterator[tuple[str, list[float]]]:
    for name, command in (("bare", [PYTHON, BARE, "steps"]), ("ask", ASK_WITH_FLAGS)):
        exchanges = bench.server.play(script)
        _ok(run(command, ground))
        if len(exchanges) != len(script):
            raise SystemExit(f"{name}: {len(exchanges)} requests in place of {len(script)}")
        yield name, _gaps(exchanges)


def _gaps(exchanges: list[Exchange]) -> list[float]:
    return [after.arrived - before.answered for before, after in pairwise(exchanges)]


def _files(project: Path, count: int) -> Iterator[str]:
    for number in range(count):
        name = f"file{number}.txt"
        (project / name).write_text("".join(f"line {line} of {name}\n" for line in range(40)), encoding="utf-8")
        yield name


def chunks_piped(bench: Bench) -> None:
    """An answer in 2,000 chunks into a pipe: the processor time it takes on top of a short one."""
    ground = bench.ground()
    for _ in range(bench.rounds(12)):
        for name, command in (("bare", BARE_ASK), ("ask", ASK)):
            bench.server.play(SHORT)
            short = _ok(run(command, ground))
            bench.server.play([_long_answer()])
            bench.measured.add(f"{name} chunks", _ok(run(command, ground)).cpu - short.cpu)


def chunks_drawn(bench: Bench) -> None:
    """The same on a terminal, a chunk every 2 ms as from a fast model: processor time on top, and bytes written."""
    ground = bench.ground()
    for _ in range(bench.rounds(8)):
        bench.server.play(SHORT)
        short = _ok(Terminal(ASK, ground).finish())
        bench.server.play([_long_answer(pause=0.002)])
        done = _ok(Terminal(ASK, ground).finish())
        bench.measured.add("drawn cpu", done.cpu - short.cpu)
        bench.measured.add("drawn bytes", len(done.output))


def _long_answer(pause: float = 0.0) -> Answer:
    return streamed([text_event(text, last=index == CHUNKS - 1) for index, text in enumerate(_pieces(CHUNKS))], pause)


def _pieces(count: int) -> Iterator[str]:
    """80 KB of markdown as a model writes it, in pieces of 40 characters."""
    paragraph = (
        "## Part {0}\n\nThe *loader* reads `config_{0}.toml` first, then merges the **environment**, so that a later "
        "value wins over an earlier one; see the list for what changed.\n\n- item one of part {0}, with some `code`\n"
        "- item two, a little longer than the first one was\n\n```python\ndef part_{0}(value: int) -> int:\n"
        '    """Add the number of this part."""\n    return value + {0}\n```\n\n'
    )
    text, number = "", 0
    while len(text) < count * 40:
        number += 1
        text += paragraph.format(number)
    return (text[start : start + 40] for start in range(0, count * 40, 40))


def inside(bench: Bench, name: str, rounds: int, size: int) -> Samples:
    """A measurement of inside.py, in a process of its own."""
    command = [PYTHON, "-m", "bench.inside", name, str(bench.rounds(rounds)), str(size)]
    done = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parent.parent)
    samples: Samples = json.loads(done.stdout)
    return samples


def listing(bench: Bench) -> None:
    for size in (1_000, 10_000) if bench.quick else (1_000, 10_000, 100_000):
        for name, values in inside(bench, "listing", 12, size).items():
            bench.measured.samples[f"listing {name} {size}"] = values


def listing_million(bench: Bench) -> None:
    """Only when asked for by name: making and removing the tree takes minutes."""
    for name, values in inside(bench, "listing", 12, 1_000_000).items():
        bench.measured.samples[f"listing {name} 1000000"] = values


def writing(bench: Bench) -> None:
    for name, values in inside(bench, "writing", 40, 0).items():
        bench.measured.samples[f"writing {name}"] = values


def diff(bench: Bench) -> None:
    for size in (2_000, 20_000) if bench.quick else (2_000, 20_000, 200_000):
        for name, values in inside(bench, "diff", 12, size).items():
            bench.measured.samples[f"diff {name} {size}"] = values


def session(bench: Bench) -> None:
    for size in (10, 100, 1_000) if bench.quick else (10, 100, 1_000, 10_000):
        for name, values in inside(bench, "session", 8, size).items():
            bench.measured.samples[f"session {name} {size}"] = values


def _ok(done: Finished) -> Finished:
    if done.code != 0:
        raise SystemExit(f"a measured program ended with {done.code}: {done.output[-2000:]!r}")
    return done


EXPERIMENTS: dict[str, Callable[[Bench], None]] = {
    experiment.__name__: experiment
    for experiment in (
        version, ask, chat, steps, parallel, chunks_piped, chunks_drawn, listing, writing, diff, session,
    )
}  # fmt: skip
LONG: dict[str, Callable[[Bench], None]] = {"listing_million": listing_million}
