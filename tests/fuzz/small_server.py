"""`tsdb` on a machine of 1 GiB, whatever this one has: what queries may take is a part of the memory there is."""

from __future__ import annotations

from tsdb.cli import main
from tsdb.components import standalone

standalone.memory_bytes = lambda: 1 << 30  # type: ignore[attr-defined]

if __name__ == "__main__":
    main()
