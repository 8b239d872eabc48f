"""Parameters of query strings and forms."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import LimitExceeded, parse_form

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(_TEXT, _TEXT), max_size=8))
def test_what_was_encoded_comes_back(pairs: list[tuple[str, str]]) -> None:
    assert parse_form(urlencode(pairs).encode(), 100) == pairs


@given(st.text("ab=&%+41cC3", max_size=30))
def test_odd_texts_are_read_as_python_reads_them(text: str) -> None:
    try:
        wanted = parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match="UTF-8"):
            parse_form(text.encode(), 100)
    else:
        assert parse_form(text.encode(), 100) == wanted


def test_too_many_parameters_are_refused() -> None:
    assert parse_form(b"a=1&b=2", 2) == [("a", "1"), ("b", "2")]
    with pytest.raises(LimitExceeded):
        parse_form(b"a=1&b=2&c=3", 2)
