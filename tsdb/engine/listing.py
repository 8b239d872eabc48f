"""What lies in the store when the engine opens, listed once for everything that opening has to look for.

Drops to finish, regions, versions of manifests, data files that are missing, orphans: all of them are read off one
listing. No other process writes to the store meanwhile, because the lock of the data directory is held.
"""

from __future__ import annotations

from bisect import bisect_left

from tsdb.engine.manifest import ManifestState, data_path
from tsdb.model import RegionId
from tsdb.store import ObjectMeta, ObjectStore, everywhere

DATA = "data"
"""Where regions live in the store."""
DROPPING = ".dropping"
"""An object of this name in a region's directory says that the region is dropped, whatever else is there."""


class Listing:
    """The objects below a prefix, sorted by path."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        """`prefix` is listed in every store."""
        self._store = store
        self._prefixes = everywhere(store, prefix)
        self._objects = [found for each in self._prefixes for found in store.list(each)]
        self._paths = [found.path for found in self._objects]

    def below(self, directory: str) -> list[ObjectMeta]:
        """Return the objects of a directory; one outside of the prefixes is listed by itself."""
        if not any(directory.startswith(f"{prefix}/") for prefix in self._prefixes):
            return list(self._store.list(directory))
        first = bisect_left(self._paths, f"{directory}/")
        return self._objects[first : bisect_left(self._paths, f"{directory}0", first)]

    def dropped(self) -> list[str]:
        """Return the directories of regions whose drop was interrupted."""
        return [path.removesuffix(f"/{DROPPING}") for path in self._paths if path.endswith(f"/{DROPPING}")]

    def regions(self) -> dict[RegionId, str]:
        """Find the regions by their manifests, for a start without a catalog; dropped ones are not among them."""
        return {region_of(directory): directory for directory in self.directories()}

    def directories(self) -> list[str]:
        """Return the directories that have a manifest and are not being dropped."""
        split = (path.split("/") for path in self._paths)
        found = {"/".join(parts[:-2]) for parts in split if len(parts) > 2 and parts[-2] == "manifest"}
        return sorted(found.difference(self.dropped()))


def region_of(directory: str) -> RegionId:
    """Return the region that a directory `…/{table_id}_{number}` belongs to."""
    table, _, number = directory.rsplit("/", 1)[-1].partition("_")
    return RegionId(int(table) << 32 | int(number))


def find_damaged(objects: list[ObjectMeta], directory: str, state: ManifestState) -> dict[str, str]:
    """Return the data files of a manifest that are missing or have another size, and what is wrong with each.

    An index file may be missing.
    """
    sizes = {found.path: found.size_bytes for found in objects}
    found = {}
    for file in state.files.values():
        path = data_path(directory, file.file_id)
        if path not in sizes:
            found[file.file_id] = "it is missing"
        elif sizes[path] != file.size_bytes:
            found[file.file_id] = f"it has {sizes[path]} bytes, expected {file.size_bytes}"
    return found
