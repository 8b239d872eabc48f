"""A source distribution has all that a wheel is built from; its metadata is what the project says."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = "tsdb/servers/http/dashboard/site"
_IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "site")


def source_files(folder: str) -> set[str]:
    """The paths of all files of a folder that were not built."""
    paths = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
    built = {"__pycache__", "target", "site"}
    return {path.as_posix() for path in paths if path.suffix != ".so" and not built & set(path.parts)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with a dashboard in it that Git ignores, as after `make dashboard`."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "tsdb", copy / "tsdb", ignore=_IGNORED)
    shutil.copytree(ROOT / "kernels", copy / "kernels", ignore=shutil.ignore_patterns("target"))
    (copy / SITE / "assets").mkdir(parents=True)
    (copy / SITE / "index.html").write_text("<!doctype html>")
    (copy / SITE / "assets" / "page.js").write_text("")
    (copy / ".gitignore").write_text(f"/{SITE}/\n")
    (copy / ".git").mkdir()
    return copy


@pytest.fixture(scope="module")
def archive(sources: Path) -> dict[str, bytes]:
    """The files of the source distribution."""
    maturin = Path(sys.executable).parent / "maturin"
    command = [str(maturin), "sdist", "--out", str(sources / "dist")]
    subprocess.run(command, cwd=sources, check=True, capture_output=True, timeout=100)
    (found,) = (sources / "dist").glob("*.tar.gz")
    with tarfile.open(found) as opened:
        members = [each for each in opened.getmembers() if each.isfile()]
        return {each.name.partition("/")[2]: opened.extractfile(each).read() for each in members}  # type: ignore[union-attr]


def test_it_has_every_source_file(archive: dict[str, bytes]) -> None:
    found = source_files("tsdb") | source_files("kernels") | {"LICENSE", "README.md"}
    assert len(found) > 500
    assert found - set(archive) == set()
    assert archive["README.md"] == (ROOT / "README.md").read_bytes()


def test_it_has_the_built_dashboard_and_no_build_output_otherwise(archive: dict[str, bytes]) -> None:
    assert {f"{SITE}/index.html", f"{SITE}/assets/page.js"} <= set(archive)
    assert not [name for name in archive if name.endswith((".so", ".pyc")) or "/target/" in name]


def test_its_metadata_names_license_description_and_python(archive: dict[str, bytes]) -> None:
    metadata = HeaderParser().parsestr(archive["PKG-INFO"].decode())
    assert (metadata["Name"], metadata["License-Expression"]) == ("tsdb-server", "Apache-2.0")
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload().startswith("# tsdb\n")
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
