"""The manifest: which files a region is made of, version by version. Format and rules: `docs/format/manifest.md`."""

from tsdb.engine.manifest._actions import Action, Change, Edit, Forget, Remove, Truncate
from tsdb.engine.manifest._apply import apply
from tsdb.engine.manifest._checkpoint import write_checkpoint
from tsdb.engine.manifest._file_meta import FILE_ID_BYTES, FileMeta
from tsdb.engine.manifest._layout import data_path, index_path, manifest_directory
from tsdb.engine.manifest._manifest import Manifest
from tsdb.engine.manifest._orphans import plan_orphan_sweep, run_orphan_sweep
from tsdb.engine.manifest._state import ManifestState, QuarantinedFile, RemovedFile
from tsdb.engine.manifest._takeovers import SEQUENCE_GAP, Takeover, awaits_late_rows

CRASH_POINTS = (
    "manifest.commit.before_put",
    "manifest.commit.after_put",
    "manifest.checkpoint.before_put",
    "manifest.checkpoint.after_put",
    "manifest.checkpoint.after_pointer",
    "manifest.checkpoint.after_delete",
)
"""The places of the manifest where a test can end the process."""

__all__ = [
    "CRASH_POINTS",
    "FILE_ID_BYTES",
    "SEQUENCE_GAP",
    "Action",
    "Change",
    "Edit",
    "FileMeta",
    "Forget",
    "Manifest",
    "ManifestState",
    "QuarantinedFile",
    "Remove",
    "RemovedFile",
    "Takeover",
    "Truncate",
    "apply",
    "awaits_late_rows",
    "data_path",
    "index_path",
    "manifest_directory",
    "plan_orphan_sweep",
    "run_orphan_sweep",
    "write_checkpoint",
]
