import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import ModelMessage, ModelRequest, Text, Thought, UserMessage
from gemcode.agent.model import Finish, FinishKind, ModelReplied
from gemcode.gemini.retry import Again, Progress, Remedy, RetryPolicy, after_error, after_reply, remedied

POLICY = RetryPolicy()
OVERLOADED = ModelError("The model is overloaded.", retryable=True)


def asked(delay: float) -> ModelError:
    return ModelError("The limit per minute is reached.", exit_code=ExitCode.QUOTA, retryable=True, delay=delay)


def reply(kind: FinishKind, reason: str, text: str = "") -> ModelReplied:
    return ModelReplied(ModelMessage((Text(text),) if text else (Thought("hm"),)), Finish(kind, reason, "why"))


@given(st.integers(0, 3), st.floats(0, 1))
def test_a_wait_without_a_word_of_the_server_grows_with_full_jitter(failed: int, draw: float) -> None:
    again = after_error(OVERLOADED, Progress(failed), POLICY, draw)
    assert again.delay == draw * 2.0**failed


def test_the_longest_wait_is_capped() -> None:
    assert RetryPolicy(longest_wait=3).backoff(10, 1.0) == 3


@pytest.mark.parametrize("delay", [0.0, 34.4, 120.0])
def test_the_server_is_obeyed_exactly(delay: float) -> None:
    assert after_error(asked(delay), Progress(), POLICY, 0.5).delay == delay


def test_an_error_that_trying_does_not_cure_is_raised_at_once() -> None:
    error = ModelError("The limit per day is used up.", exit_code=ExitCode.QUOTA, delay=5.0)
    with pytest.raises(ModelError) as caught:
        after_error(error, Progress(), POLICY, 0.5)
    assert caught.value is error


def test_five_attempts_are_all() -> None:
    with pytest.raises(ModelError) as caught:
        after_error(OVERLOADED, Progress(failed=4), POLICY, 0.5)
    assert caught.value is OVERLOADED


@pytest.mark.parametrize(("waited", "delay"), [(0.0, 121.0), (100.0, 48.0)])
def test_a_wait_longer_than_allowed_is_a_matter_of_quota(waited: float, delay: float) -> None:
    with pytest.raises(ModelError, match="longer than the 120 s allowed") as caught:
        after_error(asked(delay), Progress(waited=waited), POLICY, 0.5)
    assert caught.value.exit_code is ExitCode.QUOTA


def test_own_waits_past_the_budget_raise_the_error_itself() -> None:
    with pytest.raises(ModelError) as caught:
        after_error(OVERLOADED, Progress(waited=119.9), POLICY, 1.0)
    assert caught.value is OVERLOADED


def test_a_refused_signature_is_repaired_once() -> None:
    error = ModelError("The API refused the request.", detail="Corrupted thought signature.")
    again = after_error(error, Progress(), POLICY, 0.5)
    assert (again.remedy, again.delay) == (Remedy.UNSIGN, 0.0)
    with pytest.raises(ModelError):
        after_error(error, Progress().after(again), POLICY, 0.5)


@pytest.mark.parametrize(
    ("answer", "remedy", "times"),
    [
        (reply(FinishKind.MALFORMED, "MALFORMED_FUNCTION_CALL"), Remedy.NUDGE, 3),
        (reply(FinishKind.MALFORMED, "UNEXPECTED_TOOL_CALL", "text"), Remedy.NUDGE, 3),
        (reply(FinishKind.EMPTY, "STOP"), Remedy.NONE, 3),
        (reply(FinishKind.EMPTY, "", "half"), Remedy.NONE, 3),
        (reply(FinishKind.OTHER, "OTHER"), Remedy.NONE, 3),
        (reply(FinishKind.OTHER, "NEVER_SEEN"), Remedy.NONE, 3),
        (reply(FinishKind.OTHER, "OTHER", "some text"), Remedy.NONE, 0),
        (reply(FinishKind.OTHER, "TOO_MANY_TOOL_CALLS"), Remedy.NONE, 0),
        (reply(FinishKind.OTHER, "MISSING_THOUGHT_SIGNATURE"), Remedy.UNSIGN, 1),
        (reply(FinishKind.BLOCKED, "RECITATION", "half"), Remedy.REPHRASE, 1),
        (reply(FinishKind.BLOCKED, "SAFETY"), Remedy.NONE, 0),
        (reply(FinishKind.CUT, "MAX_TOKENS"), Remedy.NONE, 0),
        (reply(FinishKind.COMPLETE, "STOP", "yes"), Remedy.NONE, 0),
    ],
)
def test_an_answer_is_asked_for_again_as_often_as_its_end_deserves(
    answer: ModelReplied, remedy: Remedy, times: int
) -> None:
    progress, count = Progress(), 0
    while (again := after_reply(answer, progress, POLICY, 0.5)) is not None:
        assert again.remedy is remedy
        assert again.reason.endswith(".")
        progress, count = progress.after(again), count + 1
    assert count == times
    assert progress.failed == times


REQUEST = ModelRequest("gemini-3.8-flash", (UserMessage.of("hi"), ModelMessage((Text("a", "S"),))))


def test_a_nudge_is_added_at_the_end_with_what_the_service_said() -> None:
    finish = Finish(FinishKind.MALFORMED, "MALFORMED_FUNCTION_CALL", "Malformed: now(")
    messages = remedied(REQUEST, frozenset({Remedy.NUDGE}), finish).messages
    assert messages[:-1] == REQUEST.messages
    assert isinstance(messages[-1], UserMessage)
    assert messages[-1].text.endswith("Malformed: now(")


def test_a_nudge_is_only_for_the_attempt_after_a_malformed_call() -> None:
    finish = Finish(FinishKind.EMPTY, "STOP")
    assert remedied(REQUEST, frozenset({Remedy.NUDGE}), finish) == REQUEST
    assert remedied(REQUEST, frozenset({Remedy.NUDGE}), None) == REQUEST


def test_remedies_add_up() -> None:
    sent = remedied(REQUEST, frozenset({Remedy.UNSIGN, Remedy.REPHRASE}), Finish(FinishKind.BLOCKED, "RECITATION"))
    assert sent.messages[1] == ModelMessage((Text("a"),))
    assert "own words" in sent.messages[2].text  # type: ignore[union-attr]


def test_progress_adds_up() -> None:
    progress = Progress().after(Again("x", 2.0, 5)).after(Again("y", 3.0, 4, Remedy.NUDGE, weak=True))
    assert progress == Progress(2, 1, 5.0, frozenset({Remedy.NONE, Remedy.NUDGE}))
