"""`tsdb export`."""

from tsdb.cli.transfer.exports._run import ExportOptions, run_export

__all__ = ["ExportOptions", "run_export"]
