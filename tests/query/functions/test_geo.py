"""Places on earth: geohashes, H3 and S2 cells, shapes and paths."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.functions.asking import ask, check, column, error, value

HEXAGON = "8928308280fffff"
SQUARE = "POLYGON((0 0,0 2,2 2,2 0,0 0))"

CASES = [
    ("geohash(57.64911, 10.40744, 11)", "u4pruydqqvj"),
    ("geohash(0, 0, 1)", "s"),
    ("geohash(-90, -180, 3)", "000"),
    ("geohash(90, 180, 3)", "zzz"),
    ("geohash(NULL, 1, 5)", None),
    ("geohash(1, 1, NULL)", None),
    ("geohash_neighbours(57.64911, 10.40744, 5)",
     ["u4r2h", "u4r2j", "u4prv", "u4prt", "u4prs", "u4pre", "u4prg", "u4r25"]),
    ("geohash_neighbours(NULL, 1, 5)", None),
    (f"h3_string_to_cell('{HEXAGON}')", int(HEXAGON, 16)),
    (f"h3_cell_to_string({int(HEXAGON, 16)})", HEXAGON),
    (f"h3_cell_resolution('{HEXAGON}')", 9),
    (f"h3_cell_base('{HEXAGON}')", 20),
    (f"h3_cell_is_pentagon('{HEXAGON}')", False),
    ("h3_cell_is_pentagon('8009fffffffffff')", True),
    (f"h3_cell_to_string(h3_cell_parent('{HEXAGON}', 8))", "8828308281fffff"),
    (f"h3_cell_to_children_size('{HEXAGON}', 11)", 49),
    (f"array_length(h3_cell_to_children('{HEXAGON}', 11))", 49),
    (f"h3_cell_parent(h3_cell_center_child('{HEXAGON}', 12), 9)", int(HEXAGON, 16)),
    (f"h3_child_pos_to_cell(h3_cell_to_child_pos('{HEXAGON}', 7), h3_cell_parent('{HEXAGON}', 7), 9)",
     int(HEXAGON, 16)),
    (f"array_length(h3_grid_disk('{HEXAGON}', 2))", 19),
    (f"h3_grid_disk_distances('{HEXAGON}', 0)", [int(HEXAGON, 16)]),
    (f"h3_grid_distance('{HEXAGON}', '8928308281bffff')", 2),
    (f"array_length(h3_grid_path_cells('{HEXAGON}', '8928308281bffff'))", 3),
    (f"h3_cells_contains('8928308281bffff, {HEXAGON}', '8a28308280c7fff')", True),
    ("h3_cells_contains(['8928308281bffff'], '8a28308280c7fff')", False),
    (f"h3_cells_contains([{int(HEXAGON, 16)}], '{HEXAGON}')", True),
    (f"h3_cells_contains('{HEXAGON}', NULL)", None),
    ("s2_cell_to_token(s2_latlng_to_cell(0, 0))", "1000000000000001"),
    ("s2_cell_level(s2_latlng_to_cell(12.5, -34.25))", 30),
    ("s2_cell_to_token(s2_cell_parent(s2_latlng_to_cell(37.76938, -122.3889), 0))", "9"),
    ("s2_cell_level(s2_cell_parent(s2_latlng_to_cell(1, 2), 17))", 17),
    ("s2_cell_level(-8608480567731124223)", 30),
    ("s2_latlng_to_cell(NULL, 1)", None),
    ("wkt_point_from_latlng(1, -2.50)", "POINT(-2.5 1)"),
    ("wkt_point_from_latlng(0.0000001, 0)", "POINT(0 0.0000001)"),
    ("wkt_point_from_latlng(NULL, 1)", None),
    (f"st_contains('{SQUARE}', 'POINT(1 1)')", True),
    (f"st_contains('{SQUARE}', 'POINT(3 1)')", False),
    (f"st_within('POINT(1 1)', '{SQUARE}')", True),
    (f"st_intersects('{SQUARE}', 'LINESTRING(-1 -1, 5 5)')", True),
    (f"st_intersects('{SQUARE}', NULL)", None),
    ("st_distance('POINT(0 0)', 'POINT(3 4)')", 5.0),
    (f"st_area('{SQUARE}')", 4.0),
    ("st_area(NULL)", None),
    ("st_distance_sphere_m('POINT(0 0)', NULL)", None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_geo_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("geohash(1, 2, 0)", "1 to 12"),
        ("geohash(1, 2, 13)", "1 to 12"),
        ("geohash(91, 2, 5)", "latitude 91"),
        ("h3_latlng_to_cell(1, 2, 16)", "0 to 15"),
        ("h3_latlng_to_cell_string(1, 2, -1)", "0 to 15"),
        ("h3_cell_resolution('hello')", "'hello'"),
        ("h3_cell_resolution(12)", "'12'"),
        (f"h3_cell_parent('{HEXAGON}', 10)", "parent resolution 10"),
        (f"h3_grid_disk('{HEXAGON}', 100000)", "more than"),
        (f"h3_cell_to_children('{HEXAGON}', 99)", "0 to 15"),
        (f"h3_grid_distance('{HEXAGON}', '8009fffffffffff')", "h3_grid_distance"),
        ("s2_cell_level(0)", "0 is not a cell"),
        ("s2_cell_level('x')", "64 bits"),
        ("s2_cell_parent(s2_cell_parent(s2_latlng_to_cell(1, 2), 3), 4)", "level 3"),
        ("st_area('POINT')", "'POINT'"),
        (f"st_distance_sphere_m('{SQUARE}', 'POINT(1 1)')", "Polygon"),
    ],
)
def test_geo_function_refuses(expression: str, named: str) -> None:
    assert named in error(expression)


def test_distances_on_the_sphere() -> None:
    quarter = math.pi / 2 * 6371008.8
    assert value("st_distance_sphere_m('POINT(0 0)', 'POINT(90 0)')") == pytest.approx(quarter)
    near = f"'{HEXAGON}', '8928308281bffff'"
    assert value(f"h3_distance_sphere_km({near})") == pytest.approx(0.60185, abs=1e-5)
    assert value(f"h3_distance_degree({near})") == pytest.approx(0.0058867, abs=1e-7)


def test_center_of_a_cell_lies_in_it() -> None:
    latitude, longitude = value(f"h3_cell_center_latlng('{HEXAGON}')")
    check(f"h3_latlng_to_cell_string({latitude}, {longitude}, 9)", HEXAGON)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=20), st.integers(0, 30))
def test_s2_parents_share_the_start_of_their_children(places: list[tuple[float, float]], level: int) -> None:
    table = pa.table({"lat": [each[0] for each in places], "lng": [each[1] for each in places]})
    cells = column("s2_latlng_to_cell(lat, lng)", table)
    parents = column(f"s2_cell_parent(s2_latlng_to_cell(lat, lng), {level})", table)
    below = 2 * (30 - level) + 1
    assert [cell >> below << below | 1 << below - 1 for cell in cells] == parents


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=20))
def test_longer_geohashes_begin_with_shorter_ones(places: list[tuple[float, float]]) -> None:
    table = pa.table({"lat": [each[0] for each in places], "lng": [each[1] for each in places]})
    longest = column("geohash(lat, lng, 12)", table)
    for length in range(1, 12):
        assert column(f"geohash(lat, lng, {length})", table) == [each[:length] for each in longest]


def test_paths_are_put_in_the_order_of_their_times() -> None:
    table = pa.table({
        "lat": [1.5, 2.0, None, 3.0], "lng": [4.0, 5.0, 6.0, 7.25], "at": [3, 1, 2, 2], "g": [1, 1, 1, 2],
    })  # fmt: skip
    answer = ask(
        "SELECT json_encode_path(lat, lng, at), geo_path(lat, lng, at) FROM t GROUP BY g ORDER BY g", table=table
    )
    assert answer.to_pydict() == {
        "json_encode_path(t.lat,t.lng,t.at)": ["[[5.0,2.0],[4.0,1.5]]", "[[7.25,3.0]]"],
        "geo_path(t.lat,t.lng,t.at)": [{"lat": [2.0, 1.5], "lng": [5.0, 4.0]}, {"lat": [3.0], "lng": [7.25]}],
    }
