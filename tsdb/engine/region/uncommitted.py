"""Files that were written and are part of nothing yet: they go away again unless the manifest has them, or may have."""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.engine.errors import ManifestFenced
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.sst import WrittenFile, delete_files


def discard_unless_landed(
    context: EngineContext, region: Region, files: Sequence[WrittenFile], error: BaseException
) -> None:
    """Delete the files of a commit that failed, unless they may be, or become, part of the region after all."""
    if region.manifest.is_uncertain:
        region.doubtful_files += [file.meta.file_id for file in files]
    elif not (isinstance(error, ManifestFenced) and error.may_have_landed):
        discard(context, region, files)


def discard(context: EngineContext, region: Region, files: Sequence[WrittenFile]) -> None:
    """Delete files that became part of nothing; what cannot be deleted is swept as an orphan later."""
    for file in files:
        context.caches.evict_file(file.meta.file_id)
        delete_files(context.store, region.directory, file.meta.file_id)
