"""The names of all functions that a query can call, for suggestions: ours and those of the query engine."""

from __future__ import annotations

from functools import cache

from datafusion import SessionConfig, SessionContext

from tsdb.query.functions import FUNCTION_NAMES


@cache
def _engine_functions() -> frozenset[tuple[str, str]]:
    """Names and kinds; read from the query engine when the first unknown function is called."""
    context = SessionContext(SessionConfig().with_information_schema(True))
    found = context.sql("SELECT DISTINCT routine_name, function_type FROM information_schema.routines").collect()
    return frozenset(
        pair for batch in found for pair in zip(*(each.to_pylist() for each in batch.columns), strict=True)
    )


@cache
def known_functions() -> tuple[str, ...]:
    """Return every name once."""
    return tuple(sorted({name for name, _ in _engine_functions()} | FUNCTION_NAMES))


@cache
def window_functions() -> frozenset[str]:
    """Return the functions that can be called with OVER only."""
    kinds: dict[str, set[str]] = {}
    for name, kind in _engine_functions():
        kinds.setdefault(name, set()).add(kind)
    return frozenset(name for name, found in kinds.items() if found == {"WINDOW"})
