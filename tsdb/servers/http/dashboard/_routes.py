"""The routes of the page.

    /dashboard            redirects to /dashboard/
    /dashboard/<file>     a file of the page; below assets/ for ever the same
    /dashboard/<screen>   the page itself, for browsers that navigate there; 404 for everything else

Nobody has to log in for the page: it holds no data, and asks for credentials when the API wants them.

The content security policy allows nothing but files of this server, no inline scripts and no inline styles. The editor
of the page, which writes its own style sheets, is in a shadow tree, where such sheets are made by script and need no
exception. A nonce would need another page for each request, and then the page could not be cached.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeAlias

from tsdb.errors import Status
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import full_error_body, plain_error_response
from tsdb.servers.http.dashboard._site import ASSETS, INDEX, Site, SiteFile
from tsdb.servers.http.wire import Request, Response, accepts_gzip

SITE_FOLDER = Path(__file__).parent / "site"

_PREFIX = "/dashboard/"
_HTML = "text/html; charset=utf-8"
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SAFETY = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
_REVALIDATED = ("cache-control", "no-cache")
_IMMUTABLE = ("cache-control", "public, max-age=31536000, immutable")
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tsdb</title></head>
<body><h1>The dashboard is not built</h1>
<p>It needs Node 20 and npm. Run <code>make dashboard</code> in the checkout of tsdb, then reload this page.
Packages contain it already.</p></body></html>
"""

_Headers: TypeAlias = tuple[tuple[str, str], ...]


def dashboard_routes(app: HttpApp, folder: Path = SITE_FOLDER) -> None:
    """Serve the page that was built into `folder`."""
    site = Site(folder)

    async def redirect(request: Request) -> Response:
        # Relative, so that it is right behind a proxy that adds a prefix.
        return Response(status=308, headers=[("location", "dashboard/")])

    async def show(request: Request) -> Response:
        if not site.is_read:
            await asyncio.get_running_loop().run_in_executor(None, site.read)
        name = request.path.removeprefix(_PREFIX)
        file = site.find(name or INDEX)
        if file is None and _is_navigation(request, name):
            file = site.find(INDEX)
            if file is None:
                return Response(_NOT_BUILT, content_type=_HTML, headers=(*_SAFETY, _REVALIDATED), status=503)
        if file is None:
            return _not_found(request.path)
        return _answer(request, file)

    app.add(_PREFIX.rstrip("/"), redirect)
    app.add(_PREFIX + "*", show)


def _is_navigation(request: Request, name: str) -> bool:
    """Return whether a browser wants a page to show, and not a part of one."""
    if name.startswith(ASSETS):
        return False
    mode = request.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return not name or "text/html" in (request.headers.get("accept") or "")


def _answer(request: Request, file: SiteFile) -> Response:
    is_packed = file.packed is not None and accepts_gzip(",".join(request.headers.get_all("accept-encoding")))
    # Each form of a file has its own tag, since their bytes differ.
    etag = f'"{file.etag}-gz"' if is_packed else f'"{file.etag}"'
    headers: _Headers = (
        *_SAFETY,
        _IMMUTABLE if file.is_immutable else _REVALIDATED,
        ("etag", etag),
        ("vary", "accept-encoding"),
    )
    if _is_known(request, etag):
        return Response(status=304, headers=headers)
    if is_packed and file.packed is not None:
        headers = (*headers, ("content-encoding", "gzip"))
        return Response(file.packed, content_type=file.content_type, headers=headers)
    return Response(file.body, content_type=file.content_type, headers=headers, is_packed=True)


def _is_known(request: Request, etag: str) -> bool:
    known = ",".join(request.headers.get_all("if-none-match"))
    return known.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in known.split(","))


def _not_found(path: str) -> Response:
    message = f"the dashboard has no file {path[:200]}"
    return plain_error_response(404, Status.INVALID_ARGUMENTS, message, full_error_body)
