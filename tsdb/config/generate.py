"""Rewrite the files that come from the configuration models: `python -m tsdb.config.generate [ROOT]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tsdb.config._example import render_example
from tsdb.config._reference import render_reference
from tsdb.config.options import Component


def generated_files() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    files = {f"config/{component}.example.toml": render_example(component) for component in Component}
    files["docs/configuration.md"] = render_reference()
    return files


def main(root: Path) -> None:
    """Write the files below a root directory."""
    for name, text in generated_files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
