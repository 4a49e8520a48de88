"""The benchmark's own parts: verdicts, the results page, the README's table. No timing here."""

import socket

import pytest

from bench.budgets import ROWS, Floor, Row, result, results
from bench.report import document, with_gateway
from bench.server import ScriptedServer, calls_event, streamed, text_event, whole
from bench.table import comparison

ROW = Row("a row", "ours", "ms", Floor("theirs", "the floor", 10.0), most=20.0, peers=("99 ms", ""))


def measured(ours: float, theirs: float) -> dict[str, list[float]]:
    return {"ours": [ours, ours, ours * 3], "theirs": [theirs, theirs, theirs * 3]}


@pytest.mark.parametrize(
    ("ours", "theirs", "good"),
    [
        (0.015, 0.001, True),  # below the absolute limit, whatever the ratio
        (0.200, 0.100, True),  # a slow machine: the ratio is what it was where the limit was set
        (0.201, 0.100, False),
        (0.021, 0.010, False),
    ],
)
def test_a_row_is_in_budget_by_its_value_or_by_its_ratio(ours: float, theirs: float, good: bool) -> None:
    found = result(ROW, measured(ours, theirs))
    assert found is not None
    assert found.in_budget is good


def test_one_disturbed_round_changes_no_verdict() -> None:
    found = result(ROW, {"ours": [0.015, 0.015, 0.015, 9.0], "theirs": [0.01, 0.01, 0.01, 0.01]})
    assert found is not None
    assert found.in_budget
    assert (found.median, found.high) == (15.0, 9000.0)


def test_a_row_without_samples_is_left_out_and_one_without_a_limit_is_information() -> None:
    assert result(ROW, {}) is None
    assert results({}) == []
    found = result(Row("for information", "ours", "ms"), {"ours": [5.0]})
    assert found is not None
    assert found.in_budget


def test_the_readme_table_holds_what_was_measured_and_no_more() -> None:
    rows = [row for row in ROWS if any(row.peers)]
    samples = {rows[0].samples: [0.016], **({rows[0].floor.samples: [0.008]} if rows[0].floor else {})}
    page = document(results(samples), samples)
    table = comparison(page)
    assert f"| {rows[0].name} | 16.0 ms | 8.00 ms (bare Python) | {rows[0].peers[0]} | {rows[0].peers[1]} |" in table
    assert rows[1].name not in table


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def ask(url: str) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\nconnection: close\r\n\r\nhe")
        connection.sendall(b"llo")
        connection.settimeout(5)
        received = connection.recv(65536)
        while b"STOP" not in received or (b"chunked" in received and not received.endswith(b"0\r\n\r\n")):
            received += connection.recv(65536)
        return received


def test_the_scripted_server_plays_its_script_and_keeps_the_times() -> None:
    server = ScriptedServer().start()
    call = calls_event([("read_file", {"path": "a"})], 1)
    exchanges = server.play([whole(call), streamed([text_event("a", last=False), text_event("b")])])
    assert b'"functionCall"' in ask(server.url)
    assert ask(server.url).count(b"data: ") == 2
    assert [exchange.size for exchange in exchanges] == [5, 5]
    assert all(exchange.answered >= exchange.arrived for exchange in exchanges)


def test_the_gateway_s_section_is_renewed_alone() -> None:
    first = with_gateway("# Rows\n", "| old |")
    assert first.startswith("# Rows\n") and with_gateway(first, "| new |") == first.replace("old", "new")
