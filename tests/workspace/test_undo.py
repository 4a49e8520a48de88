"""Undo and restore: writes like any other, confirmed by whoever calls, never over something newer."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs, undo
from tests.workspace.ground import Ground, before_call


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_undo_brings_the_old_bytes_back_and_undo_of_it_is_redo(ground: Ground) -> None:
    ground.put("a", b"old", 0o751)
    with ground.session() as session:
        session.write("a", b"new")
        session.undo()
        assert ground.read("a") == b"old"
        session.undo()
        assert ground.read("a") == b"new"
        session.undo()
        assert ground.read("a") == b"old"
        assert [record.intent.reason.split(" ")[0] for record in session.records()] == ["undo"] * 3 + ["write_file"]
    assert (ground.project / "a").stat().st_mode & 0o777 == 0o751


def test_an_older_write_is_undone_by_its_id_if_nothing_came_after_it(ground: Ground) -> None:
    with ground.session() as session:
        first = session.write("a", b"1")
        session.write("b", b"2")
        session.undo(first.id)
        assert (ground.read("a"), ground.read("b")) == (None, b"2")


def test_undo_of_a_creation_removes_the_file_and_the_directories_it_made(ground: Ground) -> None:
    ground.put("there/x", b"")
    with ground.session() as session:
        session.write("there/new/deep/a", b"1")
        (result,) = session.undo()
        assert (result.action, result.hash) == ("deleted", None)
        assert sorted(place.name for place in ground.project.rglob("*")) == ["there", "x"]
        session.undo()
        assert ground.read("there/new/deep/a") == b"1"
        session.write("there/new/other", b"2")
        session.undo(session.records("there/new/deep/a")[0].id)
        assert ground.read("there/new/deep/a") is None
        assert ground.read("there/new/other") == b"2"
    assert not ground.leftovers()


def test_an_undone_creation_comes_back_with_its_mode(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"1")
        (ground.project / "a").chmod(0o755)
        session.undo()
        session.undo()
    assert (ground.project / "a").stat().st_mode & 0o777 == 0o755


def test_a_file_changed_since_is_a_conflict_and_is_left_alone(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session() as session:
        id = session.write("a", b"new").id
        ground.put("a", b"mine")
        plan = undo.undo(session.root, session.store)
        assert plan.proposals == ()
        (conflict,) = plan.conflicts
        assert conflict.kind == "conflict"
        assert id in conflict.message
        assert ground.read("a") == b"mine"
        session.restore(id)
        assert ground.read("a") == b"old"
        session.undo()
        assert ground.read("a") == b"mine"


def test_a_file_changed_between_the_plan_and_the_write_is_left_alone(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"new")
        (proposal,) = undo.undo(session.root, session.store).proposals
        ground.put("a", b"mine")
        with pytest.raises(ToolError):
            session.carry_out(proposal)
        assert ground.read("a") == b"mine"


def test_a_save_while_a_creation_is_undone_goes_back_to_its_place(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"new")
        (proposal,) = undo.undo(session.root, session.store).proposals
        hook = before_call("rename", lambda: ground.put("a", b"mine") and None, occurrence=2)
        with osfs.inject(hook), pytest.raises(ToolError) as caught:
            session.carry_out(proposal)
        assert caught.value.kind == "conflict"
        assert ground.read("a") == b"mine"
    assert not ground.leftovers()


def test_two_saves_while_a_creation_is_undone_are_both_kept(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"new")
        (proposal,) = undo.undo(session.root, session.store).proposals

        def hook(name: str) -> None:
            calls.append(name)
            if name == "rename" and calls.count("rename") == 2:
                ground.put("a", b"first")
            if name == "rename_noreplace":
                ground.put("a", b"second")

        calls: list[str] = []
        with osfs.inject(hook), pytest.raises(ToolError) as caught:
            session.carry_out(proposal)
        assert caught.value.kind == "conflict"
        assert ground.read("a") == b"second"
        assert b"first" in session.kept().values()
    assert not ground.leftovers()


def test_a_whole_turn_is_undone_to_what_was_there_before_it(ground: Ground) -> None:
    ground.put("a", b"0")
    with ground.session() as session:
        session.write("a", b"kept", turn="t1")
        session.write("a", b"1", turn="t2")
        session.write("b/c", b"1", turn="t2")
        session.write("a", b"2", turn="t2")
        session.write("d", b"1", turn="t2")
        results = session.undo(turn="t2")
        assert {result.action for result in results} == {"modified", "deleted"}
        assert (ground.read("a"), ground.read("b/c"), ground.read("d")) == (b"kept", None, None)
        assert session.undo(turn="t2") == []  # it is as it was already
        session.undo(turn="undo")
        assert (ground.read("a"), ground.read("b/c"), ground.read("d")) == (b"2", b"1", b"1")


def test_one_conflict_in_a_turn_does_not_hide_the_rest(ground: Ground) -> None:
    with ground.session() as session:
        session.write("a", b"1", turn="t1")
        session.write("b", b"1", turn="t1")
        ground.put("a", b"mine")
        plan = undo.undo(session.root, session.store, turn="t1")
        assert [proposal.path for proposal in plan.proposals] == ["b"]
        assert [conflict.details["path"] for conflict in plan.conflicts] == ["a"]


def test_what_can_not_be_undone_is_said(ground: Ground) -> None:
    with ground.session() as session:
        for id, turn in ((None, None), ("none", None), (None, "t9")):
            with pytest.raises(ToolError) as caught:
                undo.undo(session.root, session.store, id, turn=turn)
            assert caught.value.kind == "not_found"
        first = session.write("a", b"1").id
        second = session.write("a", b"2").id
        kept = session.store.area.keep("a", b"aside", "for the test")
        with pytest.raises(ToolError, match="restore it instead"):
            undo.undo(session.root, session.store, kept)
        session.restore(kept)
        assert ground.read("a") == b"aside"
        session.restore(second)
        with pytest.raises(ToolError) as caught:
            session.restore(second)
        assert caught.value.kind == "no_change"
        session.restore(first)
        assert ground.read("a") is None
        with pytest.raises(ToolError) as caught:
            session.restore(first)
        assert caught.value.kind == "no_change"


def test_undo_works_in_a_later_session(ground: Ground) -> None:
    ground.put("a", b"old")
    with ground.session("s1") as session:
        session.write("a", b"new")
    with ground.session("s2") as session:
        session.undo()
    assert ground.read("a") == b"old"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(["a", "b", "d/c"]), st.binary(max_size=3)),
        st.tuples(st.just("undo"), st.just(""), st.just(b"")),
        st.tuples(st.just("edit by hand"), st.sampled_from(["a", "b"]), st.binary(max_size=3)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_series_of_writes_and_undos_agrees_with_a_model(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, str, bytes]]
) -> None:
    ground = Ground(tmp_path_factory.mktemp("model"))
    model: dict[str, bytes] = {}
    log: list[tuple[str, bytes | None, bytes | None]] = []
    with ground.session() as session:
        for kind, path, data in plan:
            if kind == "write" and model.get(path) != data:
                session.write(path, data)
                log.append((path, model.get(path), data))
                model[path] = data
            elif kind == "edit by hand":
                ground.put(path, data)
                model[path] = data
            elif kind == "undo" and log:
                path, before, after = log[-1]
                if model.get(path) == after:
                    session.undo()
                    log.append((path, after, before))
                    model.pop(path, None)
                    if before is not None:
                        model[path] = before
                elif model.get(path) != before:
                    assert undo.undo(session.root, session.store).conflicts
            assert {name: ground.read(name) for name in ("a", "b", "d/c")} == {
                name: model.get(name) for name in ("a", "b", "d/c")
            }
        assert session.store.verify().sound
    assert not ground.leftovers()
