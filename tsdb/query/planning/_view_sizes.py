"""The size of a query after expansion, views included: see `tsdb.sql.expansion`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsdb.errors import InvalidArguments
from tsdb.model import ViewInfo
from tsdb.sql.expansion import GROWING_FUNCTIONS, QuerySize, measure
from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite import TableRef, TokenLayout
from tsdb.sql.statements import Dialect

VIEWS_DEPTH_MAX = 50
"""How deep views may read views."""

SMALL_RELATIONS_MAX = 16
SMALL_TOKENS_MAX = 3000
"""A query of at most this size is planned in the calling thread."""

# What measuring can add to a query of one SELECT: sizes of series, large values.
_MEASURED = GROWING_FUNCTIONS | {"UNNEST"}


class ViewSizes:
    """The sizes of the views of one statement, each measured once."""

    def __init__(self, find: Callable[[tuple[str, ...]], ViewInfo | None]) -> None:
        self._find = find
        self._known: dict[str, QuerySize] = {}
        self._open: list[str] = []

    def is_view(self, parts: tuple[str, ...]) -> bool:
        return self._find(parts) is not None

    def of(self, parts: tuple[str, ...]) -> QuerySize | None:
        """Return the size of a view; None for anything else."""
        view = self._find(parts)
        if view is None:
            return None
        name = f"{view.database}.{view.name}"
        if name not in self._known:
            if name in self._open:
                return None
            self._open.append(name)
            self._known[name] = self._measure(view)
            self._open.pop()
        return self._known[name]

    def _measure(self, view: ViewInfo) -> QuerySize:
        inside = ViewSizes(lambda parts: self._find(parts if len(parts) > 1 else (view.database, *parts)))
        inside._known, inside._open = self._known, self._open
        if len(self._open) > VIEWS_DEPTH_MAX:
            raise ViewsTooDeep(f"views read views deeper than {VIEWS_DEPTH_MAX}", view=view.name)
        layout = TokenLayout(view.query, tokenize(view.query, Dialect.GENERIC))
        return measure(layout, Dialect.GENERIC, inside.of)


def check_size(layout: TokenLayout, named: Sequence[TableRef], dialect: Dialect, views: ViewSizes) -> bool:
    """Refuse a query that is too large after expansion; return whether it is a small one."""
    grows = any(word in _MEASURED and layout.is_operator(index + 1, "(") for index, word in enumerate(layout.words))
    is_small = len(named) <= SMALL_RELATIONS_MAX and len(layout.tokens) <= SMALL_TOKENS_MAX
    has_views = any(views.is_view(each.parts) for each in named)
    if is_small and not grows and not has_views and "WITH" not in layout.words and layout.words.count("SELECT") <= 1:
        return True
    size = measure(layout, dialect, views.of)
    is_small = size.relations <= SMALL_RELATIONS_MAX and size.tokens <= SMALL_TOKENS_MAX
    return is_small and not grows


class ViewsTooDeep(InvalidArguments):
    """A chain of views that read each other is too long."""
