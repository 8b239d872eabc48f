"""Which handler answers a request: an exact path first, else the longest prefix.

An alias is another name of a path, or of all paths below one when it ends with a slash. A path that has a route of its
own is never an alias. Everything behind the router sees the path that an alias stands for: authentication, handlers and
metrics need not know of aliases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tsdb.servers.http._errors import ErrorBody, ErrorStatus
from tsdb.servers.http._messages import AnyResponse, Request, Response
from tsdb.servers.http._meters import METHODS, OTHER, RouteMeter, route_meter

Handler: TypeAlias = Callable[[Request], Awaitable[AnyResponse]]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One method of one path, with what the application has to know about it."""

    pattern: str
    handler: Handler
    error_body: ErrorBody
    timeout_status: int
    has_timeout: bool
    meter: RouteMeter
    error_status: ErrorStatus


@dataclass(frozen=True, slots=True, eq=False)
class Miss:
    """No route: the answer is known without any handler."""

    pattern: str
    response: Response
    meter: RouteMeter


_Methods: TypeAlias = dict[str, Route]


class Router:
    """The table of routes. It is filled at start and only read afterwards."""

    def __init__(self) -> None:
        self._exact: dict[str, _Methods] = {}
        self._prefixes: list[tuple[str, _Methods]] = []
        self._misses: dict[tuple[str, str], Miss] = {}
        self._aliases: dict[str, str] = {}
        self._prefix_aliases: list[tuple[str, str]] = []

    def add(self, path: str, method: str, route: Route) -> None:
        """Let `route` answer `method` on exactly this path."""
        self._insert(self._exact.setdefault(path, {}), method, route)

    def add_prefix(self, prefix: str, method: str, route: Route) -> None:
        """Let `route` answer `method` on every path that begins so and has no route of its own."""
        methods = dict(self._prefixes).get(prefix)
        if methods is None:
            methods = {}
            self._prefixes.append((prefix, methods))
            self._prefixes.sort(key=lambda entry: -len(entry[0]))
        self._insert(methods, method, route)

    def add_alias(self, alias: str, path: str) -> None:
        """Let `alias` stand for `path`; if both end with a slash, for everything below it."""
        if not alias.endswith("/"):
            self._aliases[alias] = path
            return
        self._prefix_aliases.append((alias, path))
        self._prefix_aliases.sort(key=lambda entry: -len(entry[0]))

    def resolve(self, path: str) -> str:
        """Return the path that a requested one stands for."""
        if path in self._exact:
            return path
        target = self._aliases.get(path)
        if target is not None:
            return target
        for alias, prefix in self._prefix_aliases:
            if path.startswith(alias) and self._find_prefix(path) is None:
                return prefix + path[len(alias) :]
        return path

    def find(self, method: str, path: str) -> Route | Miss:
        methods = self._exact.get(path) or self._find_prefix(path)
        if methods is None:
            return self._miss(method, OTHER, 404)
        route = methods.get(method)
        if route is not None:
            return route
        if method == "HEAD" and "GET" in methods:
            return self._serve_head(methods)
        pattern = next(iter(methods.values())).pattern
        return self._miss(method, pattern, 405, allow=_allowed(methods))

    def _insert(self, methods: _Methods, method: str, route: Route) -> None:
        if method in methods:
            raise ValueError(f"{method} {route.pattern} has two handlers")
        methods[method] = route

    def _find_prefix(self, path: str) -> _Methods | None:
        return next((methods for prefix, methods in self._prefixes if path.startswith(prefix)), None)

    def _serve_head(self, methods: _Methods) -> Route:
        # The same route under its own method, so that it is counted by itself; made when the first HEAD
        # comes.
        get = methods["GET"]
        head = replace(get, meter=route_meter("HEAD", get.pattern))
        methods["HEAD"] = head
        return head

    def _miss(self, method: str, pattern: str, status: int, *, allow: str | None = None) -> Miss:
        # Clients may invent methods; neither this table nor the metrics keep an entry for each.
        key = (method if method in METHODS else OTHER, pattern)
        miss = self._misses.get(key)
        if miss is None:
            headers = () if allow is None else (("allow", allow),)
            miss = Miss(pattern, Response(status=status, headers=headers), route_meter(*key))
            self._misses[key] = miss
        return miss


def _allowed(methods: _Methods) -> str:
    names = set(methods)
    if "GET" in names:
        names.add("HEAD")
    return ", ".join(sorted(names))
