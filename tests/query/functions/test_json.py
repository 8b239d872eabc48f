"""JSON: values, paths, tests and objects."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.functions.asking import ask, check, column, error
from tsdb.model import Kind, type_of_field
from tsdb.query.functions._json import to_text
from tsdb.query.functions._json_path import MISSING, PathError, parse_path

CASES = [
    ("""parse_json('{"b": 1, "a": [1, 2.5, null]}')""", '{"a":[1,2.5,null],"b":1}'),
    ("""parse_json(' "é世" ')""", '"é世"'),
    ("parse_json('1e3')", "1000.0"),
    ("parse_json('{}')", "{}"),
    ("parse_json(NULL)", None),
    ("""json_to_string(parse_json('{"b":1, "a":2}'))""", '{"a":2,"b":1}'),
    ("json_to_string(NULL)", None),
    ("""json_get_int('{"a": {"b": 7}}', 'a.b')""", 7),
    ("""json_get_int('{"a": 2.9}', 'a')""", 2),
    ("""json_get_int('{"a": true}', 'a')""", 1),
    ("""json_get_int('{"a": "7"}', 'a')""", None),
    ("""json_get_int('{"a": 18446744073709551615}', 'a')""", None),
    ("""json_get_int('{"a": 1e300}', 'a')""", None),
    ("""json_get_int('{"a": 7}', 'b')""", None),
    ("""json_get_int('{"a": 7}', 'a[')""", None),
    ("""json_get_int('not json', 'a')""", None),
    ("""json_get_int('{"a": 7}', NULL)""", None),
    ("""json_get_int(NULL, 'a')""", None),
    ("""json_get_float('{"a": 7}', 'a')""", 7.0),
    ("""json_get_float('{"a": false}', 'a')""", 0.0),
    ("""json_get_float('{"a": "7.5"}', 'a')""", None),
    ("""json_get_bool('{"a": true}', 'a')""", True),
    ("""json_get_bool('{"a": 1}', 'a')""", None),
    ("""json_get_string('{"a": "x"}', 'a')""", "x"),
    ("""json_get_string('{"a": 1.5}', 'a')""", "1.5"),
    ("""json_get_string('{"a": false}', 'a')""", "false"),
    ("""json_get_string('{"a": {}}', 'a')""", None),
    ("""json_get_string('{"a": null}', 'a')""", None),
    ("""json_get_object('{"a": {"y":1,"x":2}}', 'a')""", '{"x":2,"y":1}'),
    ("""json_get_object('{"a": [1]}', 'a')""", None),
    ("""json_get('{"a": [1, {"b": 2}]}', 'a')""", '[1,{"b":2}]'),
    ("""json_get('{"a": "x"}', 'a')""", "x"),
    ("""json_get('{"a": 5}', 'a', NULL::INT)""", 5),
    ("""json_get('{"a": 5}', 'a', CAST(NULL AS DOUBLE))""", 5.0),
    ("""json_get('{"a": true}', 'a', NULL::BOOLEAN)""", True),
    ("""json_path_exists('{"a": [1, 2]}', '$.a[1]')""", True),
    ("""json_path_exists('{"a": [1, 2]}', '$.a[2]')""", False),
    ("""json_path_exists('{"a": null}', 'a')""", True),
    ("""json_path_exists('oops', 'a')""", False),
    ("""json_path_exists(NULL, 'a')""", None),
    ("""json_path_match('{"a": 5}', '$.a > 4')""", True),
    ("""json_path_match('{"a": 5}', '$.a == 4')""", False),
    ("""json_path_match('{"a": 5}', '$.a')""", None),
    ("""json_path_match('{"a": [1, 9]}', '$.a[*] > 8 && $.a[0] < 2')""", True),
    ("""json_path_match(NULL, '$.a > 4')""", None),
    ("""json_object_keys('{"b": 1, "a": 2}')""", ["a", "b"]),
    ("""json_object_keys('{}')""", []),
    ("""json_object_keys('[1]')""", None),
    ("json_object()", "{}"),
    ("json_object('a', 1, 'b', 'x', 'c', 1.5, 'd', true, 'e', NULL)", '{"a":1,"b":"x","c":1.5,"d":true,"e":null}'),
    ("json_object('a', parse_json('[1, 2]'), 'b', json_object('c', 1))", '{"a":[1,2],"b":{"c":1}}'),
    ("json_object('a', arrow_cast(0, 'Timestamp(s)'))", '{"a":"1970-01-01T00:00:00"}'),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_json_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


KINDS = {
    "null": {"null"},
    "true": {"bool"},
    "1": {"int", "float"},
    "1.5": {"float"},
    '"x"': {"string"},
    "[1]": {"array"},
    "{}": {"object"},
    "oops": set(),
}


@pytest.mark.parametrize("kind", ["null", "bool", "int", "float", "string", "array", "object"])
def test_json_is(kind: str) -> None:
    table = pa.table({"j": [*KINDS, None]})
    expected = [kind in kinds for kinds in KINDS.values()]
    assert column(f"json_is_{kind}(j)", table) == [*expected, None]


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[1,]", "NaN", "01", '"\\ud800"', "[" * 2000 + "]" * 2000])
def test_parse_json_refuses_what_is_not_json(text: str) -> None:
    quoted = text.replace("'", "''")
    assert error(f"parse_json('{quoted}')").startswith("Failed to parse JSON")


def test_json_path_exists_refuses_what_is_not_a_path() -> None:
    assert "expected an index" in error("json_path_exists('{}', '$.a[')")


def test_json_object_refuses_a_null_key() -> None:
    assert "keys that are not NULL" in error("json_object(NULL, 1)")


def test_results_know_that_they_are_json() -> None:
    answer = ask("""SELECT parse_json('{}') AS a, json_get_object('{}', 'a') AS b, json_object() AS c""")
    assert [type_of_field(field).kind for field in answer.schema] == [Kind.JSON] * 3  # type: ignore[union-attr]


def test_paths_may_differ_from_row_to_row() -> None:
    table = pa.table({"j": ['{"a":1,"b":2}'] * 3 + [None], "p": ["a", "b", None, "a"]})
    assert column("json_get_int(j, p)", table) == [1, 2, None, None]


DOCUMENT: Any = {
    "a": {"b": {"c": 1}, "d-e": 2, "f g": 3, "é": 4},
    "list": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}, {"x": 3}],
    "numbers": [10, 20, 30, 40],
    "0": "zero",
    "nothing": None,
}
PATHS = [
    ("$", [DOCUMENT]),
    ("a.b.c", [1]),
    ("$.a.b.c", [1]),
    ("a:b:c", [1]),
    ("$a.b.c", None),
    ('a["b"].c', [1]),
    ('$["a"]["f g"]', [3]),
    ('a."f g"', [3]),
    ("a.d-e", [2]),
    ("a.é", [4]),
    ('["0"]', ["zero"]),
    ("$.0", ["zero"]),
    ("a.*", [{"c": 1}, 2, 3, 4]),
    ("numbers[0]", [10]),
    ("numbers[-1]", [40]),
    ("numbers[last]", [40]),
    ("numbers[last - 1]", [30]),
    ("numbers[1 to last]", [20, 30, 40]),
    ("numbers[0, 2]", [10, 30]),
    ("numbers[0, 2 to 3]", [10, 30, 40]),
    ("numbers[*]", [10, 20, 30, 40]),
    ("numbers[9]", []),
    ("numbers[-9]", []),
    ("list[*].x", [1, 2, 3]),
    ("list[1].y", ["q"]),
    ("list[*]?(@.x == 2).y", ["q"]),
    ("list[*]?(@.x >= 2)", [{"x": 2, "y": "q"}, {"x": 3}]),
    ("list[*]?(@.x > 1 && @.x < 3).x", [2]),
    ("list[*]?(@.x == 1 || @.x == 3).x", [1, 3]),
    ("list[*]?(!(@.x == 1)).x", [2, 3]),
    ("list[*]?(exists(@.y)).x", [1, 2]),
    ('list[*]?(@.y == "p").x', [1]),
    ("list[*]?(@.y != 'p').x", [2]),
    ('list[*]?(@.y starts with "q").x', [2]),
    ("list[*]?(@.x == $.a.d-e).x", [2]),
    ("numbers[*]?(@ > 15 && @ <> 30)", [20, 40]),
    ("nothing", [None]),
    ("$.nothing?(@ == null)", [None]),
    ("$.**.c", [1]),
    ("missing.x", []),
    ("a.b.c.d", []),
    ("$.a.b.c == 1", [True]),
    ("$.a.b.c > 1", [False]),
    ("exists($.a)", [True]),
    ("!($.a.b.c == 1)", [False]),
    ("", None),
    ("a.", None),
    ("a..b", None),
    ("a b", None),
    ("$.**.**", None),
    ("[", None),
    ("[]", None),
    ("[1.5]", None),
    ("[1 to]", None),
    ("?", None),
    ("$.a?(@)", None),
    ("$.a ==", None),
    ('a."b', None),
    ("a/b", None),
    ("$.a?(" + "(" * 100 + "@ == 1" + ")" * 101, None),
]


@pytest.mark.parametrize(("text", "expected"), PATHS, ids=[case[0][:30] for case in PATHS])
def test_path_finds(text: str, expected: list[Any] | None) -> None:
    if expected is None:
        with pytest.raises(PathError):
            parse_path(text)
        return
    path = parse_path(text)
    assert path.find(DOCUMENT) == expected
    first = path.first(DOCUMENT)
    assert first is MISSING if not expected else first == expected[0]


_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_JSON)
def test_text_of_a_value_reads_back_as_the_value(value: Any) -> None:
    text = to_text(value)
    assert json.loads(text) == value
    assert to_text(json.loads(text)) == text


@given(st.text(max_size=30) | st.text("$@.:[]()?*,+-=!<>&| ab1\"'", max_size=20))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
    except PathError:
        return
    path.find(DOCUMENT)
