"""`tsdb import` and `tsdb export`."""

from tsdb.cli.transfer._batches import RowsBatch, WriteBatch
from tsdb.cli.transfer._import import ImportLimits
from tsdb.cli.transfer._progress import showing
from tsdb.cli.transfer._run_import import ImportOptions, run_import
from tsdb.cli.transfer._samples import batches_of, encode_labels
from tsdb.cli.transfer._send import BatchWriter
from tsdb.cli.transfer.exports import ExportOptions, run_export

__all__ = [
    "BatchWriter",
    "ExportOptions",
    "ImportLimits",
    "ImportOptions",
    "RowsBatch",
    "WriteBatch",
    "batches_of",
    "encode_labels",
    "run_export",
    "run_import",
    "showing",
]
