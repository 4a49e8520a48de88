"""Strategies for any message and any entry of a session."""

from typing import Any

from hypothesis import strategies as st

from gemcode.agent.events import FileChanged
from gemcode.agent.messages import (
    Blob,
    ModelMessage,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.transcript import (
    AttemptFailed,
    CallEnded,
    Committed,
    Compacted,
    Opened,
    StepTaken,
    Titled,
    TurnEnded,
    Uncompacted,
    Withdrawn,
)

TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
IDS = st.sampled_from(["c0", "c1", "c2"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
RAW = st.none() | OBJECTS
SIGNATURE = st.none() | TEXT
TEXTS = st.builds(Text, TEXT, SIGNATURE, RAW)
BLOBS = st.builds(Blob, TEXT, st.binary(max_size=20), SIGNATURE, RAW)
OPAQUES = st.builds(Opaque, OBJECTS)
CALLS = st.builds(ToolCall, IDS, TEXT, OBJECTS, SIGNATURE, RAW)
USER_MESSAGES = st.builds(UserMessage, st.lists(TEXTS | BLOBS | OPAQUES, max_size=3).map(tuple))
MODEL_PARTS = TEXTS | st.builds(Thought, TEXT, SIGNATURE, RAW) | CALLS | BLOBS | OPAQUES
MODEL_MESSAGES = st.builds(ModelMessage, st.lists(MODEL_PARTS, max_size=4).map(tuple))
RESULTS = st.builds(ToolResult, IDS, TEXT, OBJECTS, st.lists(BLOBS, max_size=1).map(tuple))
TOOL_MESSAGES = st.builds(ToolMessage, st.lists(RESULTS, max_size=3).map(tuple))
MESSAGES = USER_MESSAGES | MODEL_MESSAGES | TOOL_MESSAGES

COUNTS = st.integers(0, 10**6)
NUMBERS = st.floats(0, 1e6)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
ENTRIES = st.one_of(
    st.builds(Opened, TEXT, TEXT, TEXT, TEXT),
    st.builds(Committed, MESSAGES),
    st.builds(Withdrawn),
    st.builds(StepTaken, TEXT, USAGES, st.none() | NUMBERS, TEXT, NUMBERS),
    st.builds(AttemptFailed, TEXT, USAGES, st.none() | NUMBERS),
    st.builds(CallEnded, IDS, TEXT, TEXT, st.booleans(), TEXT, NUMBERS, COUNTS, st.booleans(), TEXT),
    st.builds(FileChanged, TEXT, TEXT, TEXT, COUNTS, COUNTS),
    st.builds(TurnEnded, TEXT, COUNTS, NUMBERS, TEXT, TEXT, TEXT),
    st.builds(Compacted, st.lists(MESSAGES, max_size=3).map(tuple), COUNTS, COUNTS, COUNTS),
    st.builds(Uncompacted),
    st.builds(Titled, TEXT),
)
