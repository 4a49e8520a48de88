"""`frozen` keeps what the standard frozen dataclass with slots promises."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.frozen import frozen


@frozen
class Point:
    """With every kind of field."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    note: object = field(default=None, compare=False, repr=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class Standard:
    """The same by the standard decorator."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    note: object = field(default=None, compare=False, repr=False)


@frozen
class Empty:
    pass


@frozen
class Pair:
    left: object
    right: object


def test_it_is_built_by_position_by_name_and_by_default() -> None:
    point = Point(1, names=["a"])
    assert (point.x, point.y, point.names, point.note, point.total) == (1, 2, ["a"], None, 3)
    assert Point(1).names is not Point(1).names


@pytest.mark.parametrize("build", [lambda kind: kind(), lambda kind: kind(1, z=2), lambda kind: kind(1, 2, [], 4, 5)])
def test_wrong_arguments_are_told_as_by_the_standard_one(build) -> None:
    with pytest.raises(TypeError) as ours:
        build(Point)
    with pytest.raises(TypeError) as theirs:
        build(Standard)
    assert str(ours.value) == str(theirs.value).replace("Standard", "Point")


def test_nothing_in_it_can_be_set_or_deleted_and_nothing_added() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 5), lambda: setattr(point, "z", 5), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_the_tools_for_dataclasses_know_it() -> None:
    point = Point(1, note="n")
    assert replace(point, x=9) == Point(9)
    assert replace(point, x=9).note == "n"
    assert asdict(point) == asdict(Standard(1, note="n"))
    assert [one.name for one in fields(Point)] == ["x", "y", "names", "note"]
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_it_shows_itself_as_the_standard_one_does() -> None:
    assert repr(Point(1)) == repr(Standard(1)).replace("Standard", "Point")
    assert repr(Empty()) == "Empty()"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_can_be_copied_and_pickled(again) -> None:
    assert again(Point(1, 3, ["a"], "n")) == Point(1, 3, ["a"])
    assert again(Empty()) == Empty()


def test_values_of_different_classes_are_never_equal() -> None:
    assert Empty() != Point(1)
    assert Pair(1, 2) != (1, 2)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_what_is_not_hashable_makes_it_so() -> None:
    with pytest.raises(TypeError):
        hash(Point(1))


things = st.none() | st.integers() | st.text() | st.tuples(st.integers(), st.text())


@given(things, things, things, things)
def test_equal_fields_are_equal_values_with_equal_hashes(a: object, b: object, c: object, d: object) -> None:
    same = a == c and b == d
    assert (Pair(a, b) == Pair(c, d)) is same
    assert not same or hash(Pair(a, b)) == hash(Pair(c, d))
