"""Random keys at random moments of random turns: nothing is written that was not confirmed with its difference on the
screen, the terminal is never stuck, and the conversation stays valid (the strict simulator sees every request)."""

import random
import re
import signal
import time
import zlib

import pytest

from gemcode.simulator.reply import Call, Pause, RecordedRequest, Reply, Step, Text
from tests.e2e.chatting import assert_as_before, at_prompt
from tests.e2e.program import Place, says
from tests.terminal.pty_screen import CTRL_C, CTRL_D, ENTER, PtyScreen

MARKER = re.compile(r"mark([0-9a-f]+)x\d+")
KEYS = (
    *"yyyynaadqhe? ",
    *(ENTER, "\x1b", CTRL_C, "\t", "\x1b[A", "\x0c", "\x12", "yy", "y\r", "\x1b[200~y\n\x1b[201~"),
    *("/diff\r", "/tools stats\r", "!true\r", "/hel\t", "@f\t"),
)


class Whimsical:
    """Talks, waits, reads, writes and fails as the seed has it. What it writes says which turn it belongs to."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def answer(self, request: RecordedRequest) -> Reply:
        draw = self._random
        said = [content for content in request.contents if content["role"] == "user"]
        prompts = [part["text"] for content in said for part in content["parts"] if "text" in part]
        turn = f"{zlib.crc32(repr(prompts).encode()):08x}"
        kind = draw.choice(("text", "text", "wait", "read", "write", "write", "write", "both", "busy"))
        if kind == "busy":
            return Reply(error="quota_per_minute", retry_after=draw.choice((0.2, 2.0)))
        steps: list[Step] = [
            Text("Some words.\n\n- one\n"),
            Pause(draw.random() * 0.3),
            Text("- two\n\n```\ncode\n```\n"),
        ]
        if kind == "wait":
            return Reply(steps=(Pause(draw.random() * 2), *steps))
        if kind in ("read", "both"):
            steps += [Call("list_files"), Call("read_file", {"path": "f0.txt"})]
        if kind in ("write", "both"):
            steps += [self._write(turn, request.number, index) for index in range(draw.choice((1, 1, 2)))]
        return Reply(steps=tuple(steps))

    def _write(self, turn: str, number: int, index: int) -> Call:
        content = f"mark{turn}x{number}{index}\nand more\n"
        path = f"f{self._random.randrange(3)}.txt"
        return Call("write_file", {"path": path, "content": content, "mode": "append"})


class Person:
    """Presses keys and remembers what was on the screen when they said yes."""

    def __init__(self, screen: PtyScreen, seed: int) -> None:
        self._screen = screen
        self._random = random.Random(seed)
        self._prompts = 0
        self.confirmed: set[str] = set()  # markers
        self.granted: set[str] = set()  # turns, by `a`

    def act(self) -> None:
        time.sleep(self._random.choice((0.0, 0.02, 0.1, 0.35, 0.7)))
        if self._screen.child.poll() is not None:
            return
        if self._random.random() < 0.05:
            self._screen.type("\x1a")
            time.sleep(0.1)
            self._screen.signal(signal.SIGCONT)
        elif self._screen.visible()[-1:] == [">"] and self._random.random() < 0.7:
            self._prompts += 1
            self._screen.type(f"go {self._prompts}{ENTER}")
        else:
            self._press(self._random.choice(KEYS))

    def _press(self, key: str) -> None:
        rows = self._screen.all()
        if key in ("y", "a") and rows and rows[-1].startswith("Write f"):
            header = max(number for number, row in enumerate(rows) if row.startswith("? write_file"))
            shown = [row for row in rows[header:] if re.search(r"^ *\d+ \+ ", row)]
            self.confirmed |= {found[0] for row in shown for found in MARKER.finditer(row)}
            if key == "a":
                self.granted |= {found[1] for row in shown for found in MARKER.finditer(row)}
        self._screen.type(key)

    def leave(self) -> None:
        """What everybody tries who wants to get out."""
        for _ in range(40):
            for key in (CTRL_C, CTRL_D):
                if self._screen.child.poll() is not None:
                    return
                self._screen.type(key)
                time.sleep(0.15)
        raise AssertionError(f"there is no way out:\n{self._screen.text()}")


def play(place: Place, seed: int) -> None:
    for number in range(3):
        place.write(f"f{number}.txt", "begun\n")
    with place.terminal("chat", replies=Whimsical(seed), env={"EDITOR": "true"}, size=(80, 24)) as (screen, _):
        at_prompt(screen)
        person = Person(screen, seed)
        for _ in range(25):
            person.act()
        person.leave()
        assert screen.wait_for_end() == 0
        assert_as_before(screen)
    written = [found for data in place.files().values() for found in MARKER.finditer(data.decode())]
    unseen = [found[0] for found in written if found[0] not in person.confirmed and found[1] not in person.granted]
    assert unseen == [], f"{screen.text()}\nconfirmed: {person.confirmed}"
    assert sorted(place.files()) == ["f0.txt", "f1.txt", "f2.txt"]
    result = place.ask("and now?", "--continue", replies=[says("Fine.")])
    assert result.stdout == "Fine.\n" or "no session here" in result.stderr


@pytest.mark.parametrize("seed", range(12))
def test_random_keys_never_write_unseen_nor_leave_a_stuck_terminal_nor_an_invalid_history(
    place: Place, seed: int
) -> None:
    play(place, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12, 100))
def test_a_hundred_sequences_of_random_keys(place: Place, seed: int) -> None:
    play(place, seed)
