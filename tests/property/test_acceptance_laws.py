"""The compiled schemas accept exactly what jsonschema accepts."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from parquetry.project.validation.acceptance import accepts, check_of
from parquetry.project.validation.definitions import Kind, inlined
from parquetry.project.validation.validators import validator
from parquetry.project.yaml.document import parse
from tests.support.effort import examples
from tests.support.spec_cases import CASES

VALUES = [
    document.root.value
    for case in CASES
    if (document := parse("x.yml", case.path.read_bytes())).root is not None
]
WORDS = sorted(
    {word for kind in Kind for word in str(inlined(kind)).replace("'", " ").split() if len(word) < 30}
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "id", "120MiB", "1d", "{{ var('n') }}", "a\n", *WORDS])
    | st.text(max_size=70)
)
PARTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def agree(kind, value):
    return accepts(kind)(value) == (next(validator(kind).iter_errors(value), None) is None)


@pytest.mark.parametrize("kind", Kind)
def test_they_agree_on_every_case(kind):
    assert all(agree(kind, value) for value in VALUES)


@pytest.mark.parametrize("kind", Kind)
@given(data=st.data())
@settings(
    max_examples=examples(600),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)
def test_they_agree_on_every_change_of_a_case(kind, data):
    value = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
    place = {"top": value}
    key = "top"
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 4)):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    if isinstance(place[key], dict) and data.draw(st.booleans()):
        place[key][data.draw(st.sampled_from(WORDS))] = data.draw(PARTS)
    elif isinstance(place[key], list) and data.draw(st.booleans()):
        place[key].append(data.draw(PARTS | st.sampled_from(place[key] or [None])))
    else:
        place[key] = data.draw(PARTS)
    assert agree(kind, value)


@given(value=PARTS)
@example(value=True)
@example(value=1.0)
@pytest.mark.parametrize("kind", Kind)
def test_they_agree_on_anything(kind, value):
    assert agree(kind, value)


def test_a_keyword_that_is_not_known_is_no_schema():
    with pytest.raises(KeyError, match="patternProperties"):
        check_of({"patternProperties": {}})
