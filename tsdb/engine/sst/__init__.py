"""Data files: sorted rows in Parquet beside an index file with their series. Format: `docs/format/sst.md`."""

from tsdb.engine.sst._file import DataFile
from tsdb.engine.sst._file_reader import FileReader
from tsdb.engine.sst._footer import FORMAT_VERSION
from tsdb.engine.sst._row_groups import ROW_GROUP_ROWS, estimate_row_bytes, plan_row_group_rows
from tsdb.engine.sst._types import check_storable, storage_type
from tsdb.engine.sst._write import WrittenFile, delete_files, ignore_rows, write_sst

CRASH_POINTS = (
    "sst.write.before_parquet",
    "sst.write.after_parquet",
    "sst.write.before_index",
    "sst.write.after_index",
)
"""The places of a write where a test can end the process."""

__all__ = [
    "CRASH_POINTS",
    "FORMAT_VERSION",
    "ROW_GROUP_ROWS",
    "DataFile",
    "FileReader",
    "WrittenFile",
    "check_storable",
    "delete_files",
    "estimate_row_bytes",
    "ignore_rows",
    "plan_row_group_rows",
    "storage_type",
    "write_sst",
]
