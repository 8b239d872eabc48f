"""`python -m tsdb.cli` is the `tsdb` executable."""

from tsdb.cli import main

main()
