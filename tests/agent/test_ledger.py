from gemcode.agent.events import CallRecord, FileChanged, Outcome, Status
from gemcode.agent.ledger import NotWritten, Written, ledger


def write(path: str, kind: str = "") -> CallRecord:
    return CallRecord("write_file", {}, not kind, 1.0, f"{kind}!" if kind else "", kind, path, writes=True)


def test_the_ledger_tells_what_was_written_refused_and_failed() -> None:
    outcome = Outcome(
        Status.OK,
        calls=(
            write("a"),
            write("b", "denied"),
            write("c", "conflict"),
            write("d", "denied"),
            write("d"),
            write("a", "denied"),
            CallRecord("read_file", {}, False, 1.0, "gone", "not_found", "e"),
        ),
        files_changed=(
            FileChanged("a", "created", "w1", 3, 0),
            FileChanged("d", "modified", "w2", 1, 1),
            FileChanged("a", "modified", "w3", 2, 1),
        ),
    )
    found = ledger(outcome)
    assert found.written == (Written("a", "created", 5, 1, ("w1", "w3")), Written("d", "modified", 1, 1, ("w2",)))
    assert found.refused == (NotWritten("b", "denied!"), NotWritten("a", "denied!"))
    assert found.failed == (NotWritten("c", "conflict!"),)


def test_a_file_made_and_removed_again_is_told_as_removed() -> None:
    changes = (FileChanged("a", "created", "1", 3, 0), FileChanged("a", "deleted", "2", 0, 3))
    assert [entry.action for entry in ledger(Outcome(Status.OK, files_changed=changes)).written] == ["deleted"]
    assert ledger(Outcome(Status.OK, files_changed=changes[::-1])).written[0].action == "modified"
