"""What a change of the catalog does to regions. Every step can be done again and then does nothing.

A region knows whether it was altered by the version of its schema, whether it was created by its manifest, and whether
it was dropped by not being there.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from tsdb.engine import Regions, region_directory
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import DeadlineExceeded, Status, TsdbError
from tsdb.model import CATALOG, RegionId, RegionOptions, RegionSchema, SchemaChange, TableInfo, alter
from tsdb.store import crash_point
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.catalog")

STEP_TIMEOUT = Duration.of_seconds(120)
"""How long one step may take. It goes on behind it; the intent is what makes it end."""


ReadSchema = Callable[[RegionId], RegionSchema]
"""Returns the schema that a region has now."""


class RegionSchemaMismatch(TsdbError):
    """A region does not have the schema that the catalog says."""

    status = Status.ILLEGAL_STATE


def directories_of(table: TableInfo) -> dict[RegionId, str]:
    """Return where the regions of a table live."""
    return {
        region_id: region_directory(CATALOG, table.database, table.id, number, table.options.get("storage"))
        for region_id, number in zip(table.region_ids, table.region_numbers, strict=True)
    }


class RegionSteps:
    """The steps of changes, each with a bounded time."""

    def __init__(self, regions: Regions, timeout: Duration, read_schema: ReadSchema | None = None) -> None:
        """`read_schema` is for regions elsewhere, whose `schema` may be as it was last heard of."""
        self.schema: ReadSchema = read_schema or regions.schema
        self._regions = regions
        self._timeout = timeout

    def create(self, table: TableInfo, options: RegionOptions) -> None:
        schema = table.first_region_schema()
        for region_id, directory in directories_of(table).items():
            self._regions.create_region(region_id, directory, schema, options)
            crash_point("catalog.create.after_region")

    def check_alter(self, old: TableInfo, new: TableInfo, changes: tuple[SchemaChange, ...]) -> None:
        """Refuse changes that a region would refuse, or that do not lead to what the new description says."""
        for region_id in old.region_ids:
            schema = self.schema(region_id)
            if schema.version != old.schema_version:
                raise RegionSchemaMismatch(
                    f"a region has version {schema.version} of the schema, the table {old.schema_version}",
                    table=old.full_name,
                    region_id=region_id,
                )
            altered = alter(schema, list(changes))
            if not _describes(new, altered):
                raise RegionSchemaMismatch(
                    "the new description does not have the columns that its regions would get", table=old.full_name
                )

    def alter(self, new: TableInfo, changes: tuple[SchemaChange, ...]) -> None:
        """Apply changes to the regions that do not have them yet."""
        for region_id in new.region_ids:
            version = self.schema(region_id).version
            if version == new.schema_version - 1:
                self._wait(self._regions.alter(region_id, list(changes)), region_id, self._deadline())
            elif version != new.schema_version:
                raise RegionSchemaMismatch(
                    f"a region has schema version {version} and cannot be changed to {new.schema_version}",
                    table=new.full_name,
                    region_id=region_id,
                )
            crash_point("catalog.alter.after_region")

    def set_options(self, table: TableInfo, options: RegionOptions) -> None:
        told = [(each, self._regions.set_options(each, options)) for each in table.region_ids]
        deadline = self._deadline()
        for region_id, done in told:
            self._wait(done, region_id, deadline)

    def truncate(self, table: TableInfo, token: str) -> None:
        """Empty the regions that were not emptied under this token yet; those that can be, if one cannot."""
        problem: TsdbError | None = None
        begun: list[tuple[RegionId, Future[None]]] = []
        for region_id in table.region_ids:
            try:
                begun.append((region_id, self._regions.truncate(region_id, token=token)))
            except TsdbError as error:
                problem = problem or error
        deadline = self._deadline()
        for region_id, done in begun:
            try:
                self._wait(done, region_id, deadline)
            except TsdbError as error:
                problem = problem or error
            crash_point("catalog.truncate.after_region")
        if problem is not None:
            raise problem

    def drop(self, table: TableInfo) -> TsdbError | None:
        """Drop what there is of a table's regions; return why one stays, None if all are gone, or were never there."""
        problem: TsdbError | None = None
        dropping: list[tuple[RegionId, Future[None]]] = []
        for region_id in table.region_ids:
            try:
                dropping.append((region_id, self._regions.drop(region_id)))
            except RegionNotFound:
                continue
            except TsdbError as error:
                problem = problem or error
                _log.warning("a region is not dropped yet", region=region_id, error=error)
        deadline = self._deadline()
        for region_id, done in dropping:
            try:
                self._wait(done, region_id, deadline)
            except RegionNotFound:
                continue
            except TsdbError as error:
                problem = problem or error
                _log.warning("a region is not dropped yet", region=region_id, error=error)
        return problem

    def _deadline(self) -> float:
        return monotonic() + self._timeout.seconds

    def _wait(self, done: Future[None], region_id: RegionId, deadline: float) -> None:
        try:
            done.result(timeout=max(0.0, deadline - monotonic()))
        except TimeoutError as error:
            raise DeadlineExceeded(f"a region did not answer within {self._timeout}", region_id=region_id) from error


def _describes(table: TableInfo, schema: RegionSchema) -> bool:
    """Whether a description has the columns of its regions; the tags of a physical table are not those it shows."""
    if table.is_physical:
        return {column.name for column in table.fields} == {column.name for column in schema.fields}
    described = {(column.id, column.name, column.semantic) for column in table.columns}
    return described == {(column.id, column.name, column.semantic) for column in schema.columns}
