"""The page of the dashboard, with a folder of small files in place of the built ones."""

import gzip
import shutil
from pathlib import Path

import pytest

from tests.servers.http.asgi_client import Answer, call
from tsdb.auth import Authenticator, open_authenticator
from tsdb.servers.http import HttpApp
from tsdb.servers.http.dashboard import dashboard_routes
from tsdb.units import Duration

SITE = Path(__file__).parent / "site"
SCRIPT = "/dashboard/assets/main-AbCd1234.js"
BROWSER = {
    "accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "sec-fetch-mode": "navigate",
    "accept-encoding": "gzip, deflate, br, zstd",
}


def make_app(folder: Path = SITE, authenticator: Authenticator | None = None) -> HttpApp:
    app = HttpApp(body_limit=0, timeout=Duration(0), authenticator=authenticator)
    dashboard_routes(app, folder)
    return app


async def get(target: str, app: HttpApp | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(app or make_app(), "GET", target, headers=named)


async def test_the_path_without_a_slash_leads_to_the_one_with_it() -> None:
    answer = await get("/dashboard")
    assert (answer.status, answer.headers["location"]) == (308, "dashboard/")


@pytest.mark.parametrize(
    "path", ["/dashboard/", "/dashboard/index.html", "/dashboard/query", "/dashboard/no-such-screen"]
)
async def test_every_path_that_a_browser_navigates_to_is_the_page(path: str) -> None:
    answer = await call(make_app(), "GET", path, headers=BROWSER)
    assert answer.status == 200
    assert gzip.decompress(answer.body) == (SITE / "index.html").read_bytes()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/dashboard/assets/gone-00000000.js", BROWSER),
        ("/dashboard/query", {"sec-fetch-mode": "cors", "accept": "text/html"}),
        ("/dashboard/missing.svg", {"accept": "image/svg+xml"}),
        ("/dashboard/notes.txt", {"accept": "*/*"}),
        ("/dashboard/../../../secret", {"accept": "*/*"}),
        ("/dashboard/%2e%2e/%2e%2e/__init__.py", {"accept": "*/*"}),
        ("/dashboard/assets/main-AbCd1234.js.gz", {"accept": "*/*"}),
    ],
)
async def test_a_missing_file_is_not_the_page(path: str, headers: dict[str, str]) -> None:
    answer = await call(make_app(), "GET", path, headers=headers)
    assert answer.status == 404
    assert "the dashboard has no file" in answer.json()["error"]


async def test_files_with_a_hash_in_their_name_are_kept_for_ever_and_sent_compressed() -> None:
    answer = await get(SCRIPT, accept_encoding="gzip, deflate, br, zstd")
    assert gzip.decompress(answer.body) == (SITE / "assets/main-AbCd1234.js").read_bytes()
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (await get("/dashboard/icon.svg")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("accepted", ["", "identity", "zstd", "gzip;q=0", "br"])
async def test_clients_that_cannot_read_gzip_get_the_file_as_it_is(accepted: str) -> None:
    answer = await get(SCRIPT, accept_encoding=accepted)
    assert answer.body == (SITE / "assets/main-AbCd1234.js").read_bytes()
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "accept-encoding"


async def test_what_a_client_has_already_is_not_sent_again() -> None:
    app = make_app()
    for accepted in ("gzip", "identity"):
        etag = (await get("/dashboard/", app, accept_encoding=accepted, accept="text/html")).headers["etag"]
        for known in (etag, f'"other", W/{etag}', "*"):
            again = await get("/dashboard/", app, accept_encoding=accepted, accept="text/html", if_none_match=known)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        other = await get("/dashboard/", app, accept_encoding=accepted, accept="text/html", if_none_match='"other"')
        assert other.status == 200


async def test_each_form_of_a_file_has_a_tag_of_its_own() -> None:
    packed, plain = await get(SCRIPT, accept_encoding="gzip"), await get(SCRIPT)
    assert packed.headers["etag"] != plain.headers["etag"]


async def test_the_browser_is_told_to_load_and_run_nothing_else() -> None:
    for path in ("/dashboard/", SCRIPT):
        headers = (await get(path, accept="text/html")).headers
        policy = {
            part.split(" ", 1)[0]: part.split(" ", 1)[1] for part in headers["content-security-policy"].split("; ")
        }
        assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["object-src"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_a_page_that_is_not_built_says_how_to_build_it_and_is_found_once_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    app = make_app(folder)
    missing = await call(app, "GET", "/dashboard/", headers=BROWSER)
    assert missing.status == 503
    assert b"make dashboard" in missing.body
    shutil.copytree(SITE, folder)
    assert (await call(app, "GET", "/dashboard/", headers=BROWSER)).status == 200


async def test_the_page_needs_no_login(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann=secret\n")
    app = make_app(authenticator=open_authenticator(f"static_user_provider:file:{tmp_path / 'users'}"))
    assert (await call(app, "GET", "/dashboard/", headers=BROWSER)).status == 200
    assert (await get(SCRIPT, app)).status == 200


async def test_nothing_can_be_sent_to_the_page() -> None:
    answer = await call(make_app(), "POST", "/dashboard/query", body=b"x")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    head = await call(make_app(), "HEAD", "/dashboard/", headers=BROWSER)
    assert (head.status, head.body) == (200, b"")
