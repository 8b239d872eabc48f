"""Rewrite the Grafana dashboards of the server's own metrics: `python -m deploy.grafana.generate [ROOT]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deploy.grafana.panels import render
from deploy.grafana.server import SERVER
from deploy.grafana.storage import STORAGE

DASHBOARDS = (SERVER, STORAGE)


def generated_files() -> dict[str, str]:
    """Return the text of every dashboard by its path in the repository."""
    return {
        f"deploy/grafana/dashboards/{each.uid}.json": json.dumps(render(each), indent=2, ensure_ascii=False) + "\n"
        for each in DASHBOARDS
    }


def main(root: Path) -> None:
    """Write the files below a root directory."""
    for name, text in generated_files().items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
