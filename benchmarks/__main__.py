"""Runs the benchmarks and prints a table: `python -m benchmarks [--list] [--json FILE] [NAME ...]`.

A NAME is an area (`kernels`) or one benchmark (`kernels.row_hash`); without names, everything runs.
`python -m benchmarks peers` compares tsdb with other databases instead: see `benchmarks/peers.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import Measurement

PEERS = "python -m benchmarks peers compares tsdb with other databases; peers --help has its options"
Benchmark = Callable[[], Iterable[Measurement]]


def find_names() -> list[str]:
    root = Path(__file__).parent
    return sorted(f"{file.parent.name}.{file.stem}" for file in root.glob("[!_]*/[!_]*.py"))


def select_names(names: list[str], wanted: list[str]) -> list[str]:
    """Return the names that are wanted or lie in a wanted area; all of them when nothing is wanted."""
    for want in wanted:
        if not any(is_selected(name, want) for name in names):
            raise SystemExit(f"there is no benchmark {want!r}; known: {', '.join(names)}")
    return [name for name in names if not wanted or any(is_selected(name, want) for want in wanted)]


def is_selected(name: str, want: str) -> bool:
    return name == want or name.startswith(f"{want}.")


def load(name: str) -> Benchmark | None:
    """Import a benchmark; a module without `main` only serves others."""
    main: Benchmark | None = getattr(importlib.import_module(f"benchmarks.{name}"), "main", None)
    return main


def format_line(measurement: Measurement) -> str:
    rate = f"{measurement.per_second / 1e6:,.2f} M {measurement.unit}/s"
    return f"  {measurement.what:<58} {measurement.seconds * 1e3:>10.3f} ms {rate:>28}"


def run(names: list[str]) -> dict[str, list[Measurement]]:
    results: dict[str, list[Measurement]] = {}
    for name in names:
        benchmark = load(name)
        if benchmark is None:
            continue
        print(name)
        results[name] = []
        for measurement in benchmark():
            print(format_line(measurement), flush=True)
            results[name].append(measurement)
    return results


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["peers"]:
        importlib.import_module("benchmarks.peers").main(arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="run the project's benchmarks", epilog=PEERS
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="an area (kernels) or one (kernels.row_hash)")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements to FILE as well")
    options = parser.parse_args(arguments)
    names = select_names(find_names(), options.names)
    if options.list:
        print("\n".join(names))
        return
    results = run(names)
    if options.json:
        plain = {name: [dataclasses.asdict(one) for one in found] for name, found in results.items()}
        options.json.write_text(json.dumps(plain, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
