"""`tsdb demo`: a small data set to try things on."""

from tsdb.cli.demo._load import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
