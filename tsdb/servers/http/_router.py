"""Finds the handler of a request: an exact path first, else the longest prefix.

An alias is another name for a path, or for all paths below one if it ends with a slash. A path with a route of its own
is never an alias. Everything after the router sees the target of an alias, so that authentication, handlers and metrics
need not know about aliases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tsdb.errors import Status
from tsdb.nearest import nearest_many
from tsdb.servers.http._errors import ErrorBody, ErrorStatus, full_error_body, plain_error_response
from tsdb.servers.http.wire import METHODS, OTHER, AnyResponse, Request, Response, RouteMeter, route_meter

SHOWN_PATH_CHARS = 200
"""How much of an unknown path an answer repeats."""
NEAR_MAX = 3
"""How many endpoints an answer suggests."""

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
        self._aliases: dict[str, str] = {}
        self._prefix_aliases: list[tuple[str, str]] = []

    def add(self, path: str, method: str, route: Route) -> None:
        """Let `route` answer `method` on a path, or with `*` at its end on all paths below without their own route."""
        if not path.endswith("*"):
            self._insert(self._exact.setdefault(path, {}), method, route)
            return
        prefix = path.removesuffix("*")
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
            return self._not_found(method, path)
        route = methods.get(method)
        if route is not None:
            return route
        if method == "HEAD" and "GET" in methods:
            return self._serve_head(methods)
        return self._not_allowed(method, methods)

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

    def _not_found(self, method: str, path: str) -> Miss:
        near = self._near(path)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        shown = path if len(path) <= SHOWN_PATH_CHARS else f"{path[:SHOWN_PATH_CHARS]}…"
        response = plain_error_response(
            404, Status.INVALID_ARGUMENTS, f"there is no endpoint {shown}{hint}", full_error_body
        )
        return Miss(OTHER, response, _meter(method, OTHER))

    def _not_allowed(self, method: str, methods: _Methods) -> Miss:
        route = next(iter(methods.values()))
        allow = _allowed(methods)
        message = f"the endpoint {route.pattern} does not support this method, it supports {allow}"
        response = plain_error_response(
            405, Status.INVALID_ARGUMENTS, message, route.error_body, headers=[("allow", allow)]
        )
        return Miss(route.pattern, response, _meter(method, route.pattern))

    def _near(self, path: str) -> list[str]:
        """Return the endpoints that were probably meant: almost the same, with the same last part, or below it."""
        if len(path) > SHOWN_PATH_CHARS:
            return []
        known = [*self._exact, *(prefix for prefix, _ in self._prefixes)]
        near = nearest_many(path, known, count=NEAR_MAX)
        bare = path.rstrip("/").lower()
        last = bare.rpartition("/")[2]
        for each in sorted(known, key=len):
            if each not in near and bare and _is_related(each, bare, last):
                near.append(each)
        return near[:NEAR_MAX]


def _is_related(endpoint: str, path: str, last: str) -> bool:
    """Return whether an endpoint is the path in other case, below it, above it, or ends in the same part."""
    return (
        endpoint == path
        or endpoint.startswith(f"{path}/")
        or (len(endpoint) > 1 and path.startswith(f"{endpoint}/"))
        or endpoint.endswith(f"/{last}")
    )


def _meter(method: str, pattern: str) -> RouteMeter:
    # Clients may invent methods; the metrics do not keep an entry for each.
    return route_meter(method if method in METHODS else OTHER, pattern)


def _allowed(methods: _Methods) -> str:
    names = set(methods)
    if "GET" in names:
        names.add("HEAD")
    return ", ".join(sorted(names))
