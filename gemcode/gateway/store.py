"""Stored responses and conversations, for `previous_response_id` and `conversation`: one small SQLite file.

The only state that a second gateway must share; without a path it lives in memory and ends with the process.
"""

import json
import os
import sqlite3
import time
from pathlib import Path

from gemcode.agent.errors import UsageError
from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import Failure, FailureKind, dump, new_id

ROWS = 10_000  # of each kind; the oldest go first
_CHAIN_LIMIT = 10_000
_CONVERSATION_PREFIX = "conv_"
_SCHEMA = """
create table if not exists responses (
    id text primary key, previous text, input text not null, response text not null, created real not null);
create table if not exists conversations (id text primary key, metadata text not null, created real not null);
create table if not exists items (
    conversation text not null references conversations on delete cascade, position integer not null,
    item text not null, primary key (conversation, position));
"""


class Store:
    """Reads and writes take well under a millisecond, so they run in the event loop."""

    def __init__(self, path: Path | None) -> None:
        """Raises UsageError where the file can't be used."""
        try:
            if path is not None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = _connect(path)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"Stored responses can't be kept in {path}: {reason}.", "Move it out of the way."
            ) from None

    def close(self) -> None:
        self._db.close()

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Half a surrogate pair, which the file can't hold, becomes a question mark, as on its way to Gemini."""
        plain = [value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values]
        try:
            return self._db.execute(statement, plain)
        except (
            sqlite3.Error
        ) as error:  # a full disk, a lock that another gateway holds: the client's stream ends with it
            raise Failure(FailureKind.SERVER, f"The gateway's stored responses can't be used: {error}.") from None

    # ---- responses

    def save_response(self, response: JsonObject, given: list[JsonObject], previous: str | None) -> None:
        row = (response["id"], previous, dump(given), dump(response), time.time())
        self._run("insert or replace into responses values (?, ?, ?, ?, ?)", *row)
        self._prune("responses")

    def response(self, identifier: str) -> JsonObject:
        row = self._run("select response from responses where id = ?", identifier).fetchone()
        if row is None:
            raise Failure(
                FailureKind.NOT_FOUND, f"Response with id {identifier[:80]!r} not found.", param="response_id"
            )
        return _object(row[0])

    def output(self, identifier: str) -> list[JsonObject]:
        """What a response said, item by item; nothing where there is none."""
        row = self._run("select response from responses where id = ?", identifier).fetchone()
        items: list[JsonObject] = [] if row is None else _object(row[0])["output"]
        return items

    def delete_response(self, identifier: str) -> None:
        self.response(identifier)
        self._run("delete from responses where id = ?", identifier)

    def items_before(self, previous: str) -> list[JsonObject]:
        """Everything said up to and with this response, oldest first. Unknown is an error, never silence."""
        turns: list[list[JsonObject]] = []
        wanted: str | None = previous
        while wanted is not None and len(turns) < _CHAIN_LIMIT:
            row = self._run("select previous, input, response from responses where id = ?", wanted).fetchone()
            if row is None:
                raise Failure(
                    FailureKind.INVALID,
                    f"Previous response with id {wanted[:80]!r} not found.",
                    code="previous_response_not_found",
                    param="previous_response_id",
                )
            turns.append([*json.loads(row[1]), *_object(row[2])["output"]])
            wanted = row[0]
        return [item for turn in reversed(turns) for item in turn]

    # ---- conversations

    def create_conversation(self, items: list[JsonObject], metadata: JsonObject) -> JsonObject:
        identifier = new_id(_CONVERSATION_PREFIX)
        self._insert_conversation(identifier, metadata)
        self.append(identifier, items)
        return self.conversation(identifier)

    def conversation(self, identifier: str) -> JsonObject:
        row = self._run("select metadata, created from conversations where id = ?", identifier).fetchone()
        if row is None:
            text = f"Conversation with id {identifier[:80]!r} not found."
            raise Failure(FailureKind.NOT_FOUND, text, code="conversation_not_found", param="conversation")
        return {
            "id": identifier,
            "object": "conversation",
            "created_at": int(row[1]),
            "metadata": _object(row[0]),
        }

    def conversation_items(self, identifier: str) -> list[JsonObject]:
        """What was said in it. An id that a client made up itself begins empty; one of ours must exist."""
        if identifier.startswith(_CONVERSATION_PREFIX):
            self.conversation(identifier)
        rows = self._run("select item from items where conversation = ? order by position", identifier)
        return [_object(row[0]) for row in rows]

    def append(self, identifier: str, items: list[JsonObject]) -> None:
        with self._db:
            self._run("begin immediate")
            self._insert_conversation(identifier, {})
            latest = self._run("select coalesce(max(position), -1) from items where conversation = ?", identifier)
            (last,) = latest.fetchone()
            for position, item in enumerate(items, last + 1):
                self._run("insert into items values (?, ?, ?)", identifier, position, dump(item))

    def delete_conversation(self, identifier: str) -> None:
        self.conversation(identifier)
        self._run("delete from conversations where id = ?", identifier)

    def _insert_conversation(self, identifier: str, metadata: JsonObject) -> None:
        row = (identifier, dump(metadata), time.time())
        self._run("insert or ignore into conversations values (?, ?, ?)", *row)
        self._prune("conversations")

    def _prune(self, table: str) -> None:
        """`table` is one of our two names, never a client's."""
        oldest = f"select id from {table} order by created desc limit -1 offset ?"  # noqa: S608 - see above
        self._run(f"delete from {table} where id in ({oldest})", ROWS)  # noqa: S608 - see above


def _connect(path: Path | None) -> sqlite3.Connection:
    # It is made before the event loop runs, in whose thread it is used then: always by one at a time.
    db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=5, check_same_thread=False)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
    db.execute("pragma foreign_keys = on")
    db.executescript(_SCHEMA)
    return db


def _object(text: str) -> JsonObject:
    value: JsonObject = json.loads(text)
    return value
