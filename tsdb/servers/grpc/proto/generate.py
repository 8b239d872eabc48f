"""Write the code of the messages: `python -m tsdb.servers.grpc.proto.generate`, with `grpcio-tools` installed.

Every `.proto` file of the product is compiled; names in them are relative to the checkout.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).parents[4]


def generate(target: Path = ROOT) -> None:
    """Write the generated files below `target`."""
    protoc = import_module("grpc_tools.protoc")
    included = str(files("grpc_tools") / "_proto")
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tsdb").rglob("*.proto"))
    arguments = ["protoc", f"-I{ROOT}", f"-I{included}", f"--python_out={target}", f"--pyi_out={target}", *sources]
    if protoc.main(arguments) != 0:
        raise SystemExit("the messages could not be compiled")


if __name__ == "__main__":
    generate(*(Path(each) for each in sys.argv[1:2]))
