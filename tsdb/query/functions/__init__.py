"""The functions of the dialect that the query engine does not bring along, ready to be registered with it.

A call may have to be rewritten before it reaches a function here: `tsdb.sql.function_names` has the rules. Functions
that depend on the session are made per zone, database or connection and kept; all others are made once, at import.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tsdb.query.functions import (
    _anomaly,
    _bounded,
    _calendar,
    _conditions,
    _geohash,
    _h3,
    _hyperloglog,
    _ip,
    _json,
    _match_query,
    _mysql,
    _percentile,
    _s2,
    _shapes,
    _shifts,
    _term,
    _text,
    _uddsketch,
    _vector,
)
from tsdb.query.functions._define import Function, FunctionError, function_error
from tsdb.query.functions._match_query import query_needs
from tsdb.query.functions._session import MYSQL_VERSION, session_functions
from tsdb.query.functions._term import term_needs
from tsdb.query.functions._time import time_functions
from tsdb.query.session import Session
from tsdb.sql.aggregate_calls import AGGREGATES, WINDOWS
from tsdb.sql.function_names import EXPANSIONS, OVERLOADS, RENAMES

__all__ = [
    "FUNCTION_NAMES",
    "MYSQL_VERSION",
    "Function",
    "FunctionError",
    "function_error",
    "functions_for",
    "functions_named",
    "query_needs",
    "term_needs",
]

_DECLARED = [
    *_bounded.FUNCTIONS,
    *_calendar.FUNCTIONS,
    *_conditions.FUNCTIONS,
    *_geohash.FUNCTIONS,
    *_h3.FUNCTIONS,
    *_hyperloglog.FUNCTIONS,
    *_ip.FUNCTIONS,
    *_json.FUNCTIONS,
    *_match_query.FUNCTIONS,
    *_mysql.FUNCTIONS,
    *_percentile.FUNCTIONS,
    *_s2.FUNCTIONS,
    *_shapes.FUNCTIONS,
    *_shifts.FUNCTIONS,
    *_term.FUNCTIONS,
    *_text.FUNCTIONS,
    *_uddsketch.FUNCTIONS,
    *_vector.FUNCTIONS,
]
_MADE = [each.make() for each in _DECLARED]


def functions_for(session: Session) -> list[Any]:
    """Return every function a query of this session may call, as objects to register with the query engine."""
    return [
        *_MADE,
        *_anomaly.WINDOW_FUNCTIONS,
        *time_functions(session.time_zone, session.dialect),
        *session_functions(session),
    ]


_ALIKE: list[Any] = [*_MADE, *_anomaly.WINDOW_FUNCTIONS]
_MADE_BY_NAME = {each.name: each for each in _ALIKE}


def functions_named(session: Session, words: Collection[str]) -> list[Any]:
    """Return those functions of `functions_for` whose names are among the words of a query.

    Registering all of them took 0.2 ms, asking each for its name 0.1 ms.
    """
    own = [*time_functions(session.time_zone, session.dialect), *session_functions(session)]
    return [
        *(_MADE_BY_NAME[word] for word in words if word in _MADE_BY_NAME),
        *(each for each in own if each.name in words),
    ]


FUNCTION_NAMES = frozenset(
    name
    for name in (
        *(each.name for each in _DECLARED),
        *(each.name for each in functions_for(Session(connection_id=0))),
        *RENAMES,
        *OVERLOADS,
        *EXPANSIONS,
        *AGGREGATES,
        *WINDOWS,
    )
    if "__" not in name
)
"""Every name users may call beside those the query engine brings along, for suggestions."""
