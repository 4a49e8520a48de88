import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Mode
from gemcode.agent.rate import TokenBucket
from gemcode.agent.registry import Limits, Prepared, ToolRegistry, TurnState
from tests.agent.test_loop import Bench


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def spend_all(bucket: TokenBucket) -> int:
    count = 0
    while bucket.take() == 0.0:
        count += 1
    return count


def test_a_minute_s_worth_can_be_spent_at_once_and_comes_back_with_time() -> None:
    clock = Clock()
    bucket = TokenBucket(60, clock)
    assert spend_all(bucket) == 60
    assert bucket.take() == 1.0
    clock.now += 0.25
    assert bucket.take() == 0.75
    clock.now += 0.75
    assert bucket.take() == 0.0 and bucket.take() == 1.0


def test_a_night_asleep_does_not_fill_it_beyond_its_capacity() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock)
    spend_all(bucket)
    clock.now += 8 * 3600
    assert spend_all(bucket) == 10


def test_a_clock_that_goes_back_takes_nothing_away_and_gives_nothing() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock)
    for _ in range(4):
        bucket.take()
    clock.now -= 1000
    assert spend_all(bucket) == 6


def test_less_than_one_a_minute_is_still_one_now_and_then() -> None:
    clock = Clock()
    bucket = TokenBucket(0.5, clock)
    assert spend_all(bucket) == 1 and bucket.take() == 120.0
    clock.now += 10_000
    assert spend_all(bucket) == 1


@given(per_minute=st.integers(1, 1000), steps=st.lists(st.floats(0, 120), max_size=60))
def test_never_more_than_the_rate_and_one_capacity_is_given(per_minute: int, steps: list[float]) -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute, clock)
    given_out = 0
    for step in steps:
        clock.now += step
        given_out += spend_all(bucket)
        assert given_out <= per_minute + (clock.now - 100) * per_minute / 60 + 1e-6


@given(per_minute=st.integers(1, 1000), pause=st.floats(0, 10))
def test_after_the_wait_that_it_names_there_is_a_token(per_minute: int, pause: float) -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute, clock)
    spend_all(bucket)
    clock.now += pause
    if wait := bucket.take():
        clock.now += wait + 1e-6
        assert bucket.take() == 0.0


def call(registry: ToolRegistry, bench: Bench, name: str) -> ToolResult:
    async def run() -> ToolResult:
        turn = TurnState(Mode.ALL, bench.approve)
        ready = await registry.prepare(ToolCall("c", name, {"path": "a"}), turn)
        return (await registry.start([ready], turn)[ready.call.id])[0] if isinstance(ready, Prepared) else ready.result

    return asyncio.run(run())


def test_calls_past_the_rate_are_refused_with_a_reason_whatever_the_turn() -> None:
    bench = Bench()
    registry = bench.registry(limits=Limits(calls_per_minute=3))
    results = [call(registry, bench, name) for name in ("read", "nothing", "write", "read", "nothing")]
    assert [result.ok for result in results] == [True, False, True, False, False]
    for result in results[3:]:
        assert result.error_kind == "limit" and "3 calls in a minute" in result.error_message
        assert 0 < result.response["error"]["retry_after_seconds"] <= 20


def test_writes_have_a_rate_of_their_own() -> None:
    bench = Bench()
    registry = bench.registry(limits=Limits(writes_per_minute=1))
    assert [call(registry, bench, name).ok for name in ("write", "write", "read")] == [True, False, True]
    assert bench.ran == ["write a b'new'", "read a"]
