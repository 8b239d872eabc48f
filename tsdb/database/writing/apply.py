"""Changes of the catalog that plans need: tables created and widened, each as a step of the write token.

Several requests may need the same table or column: one makes it, the others find it there and plan again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tsdb.catalog import AnyCatalog, CatalogOutdated, TableAlreadyExists
from tsdb.database.writing.plan import TablePlan
from tsdb.database.writing.request import Again, Progress
from tsdb.engine import SchemaOutdated
from tsdb.model import ColumnExists, TableInfo


def apply_plans(catalog: AnyCatalog, plans: Iterable[TablePlan], progress: Progress) -> Again | None:
    """Create and widen the tables that plans need; Again if the plans do not hold any more, or never did."""
    needed = [plan for plan in plans if plan.needs_change]
    if not needed:
        return None
    first: dict[tuple[str, str], TablePlan] = {}
    for plan in needed:
        first.setdefault(plan.key, plan)
    progress.expect(first)
    try:
        again = _create_physical(catalog, first.values(), progress)
        if again is not None:
            return again
        _change_tables(catalog, list(first.values()), progress)
    except (CatalogOutdated, TableAlreadyExists, ColumnExists, SchemaOutdated) as conflict:
        return Again(conflict)
    # Of two pieces of a request that need the same table, the second one is planned with what the first one made.
    return None if len(first) == len(needed) else Again(CatalogOutdated(needed[0].table.full_name))


def create_table(catalog: AnyCatalog, draft: TableInfo, progress: Progress) -> TableInfo:
    """Create one table."""
    progress.expect([(draft.database, draft.name)])
    progress.token.enter()
    created = catalog.create_table(draft)
    progress.note_table(created, None)
    return created


def _create_physical(catalog: AnyCatalog, plans: Iterable[TablePlan], progress: Progress) -> Again | None:
    drafts = {(plan.physical.database, plan.physical.name): plan.physical for plan in plans if plan.physical}
    for draft in drafts.values():
        progress.token.enter()
        progress.created[catalog.create_table(draft).name] = None
    # The physical tables have their ids only now, which the logical ones need.
    return Again(CatalogOutdated(", ".join(name for _, name in drafts))) if drafts else None


def _change_tables(catalog: AnyCatalog, plans: Sequence[TablePlan], progress: Progress) -> None:
    _create_logical(catalog, [plan for plan in plans if plan.was is None and plan.table.is_logical], progress)
    for plan in plans:
        if plan.was is not None:
            progress.token.enter()
            plan.fitted.table = catalog.alter_table(plan.was, plan.table.changed(), plan.changes)
            progress.note_table(plan.table, plan.was)
        elif not plan.table.is_logical:
            progress.token.enter()
            plan.fitted.table = catalog.create_table(plan.table)
            progress.note_table(plan.table, None)


def _create_logical(catalog: AnyCatalog, plans: Sequence[TablePlan], progress: Progress) -> None:
    if not plans:
        return
    progress.token.enter()
    made = catalog.create_logical_tables([plan.table for plan in plans])
    for plan, table in zip(plans, made, strict=True):
        plan.fitted.table = table
        progress.note_table(table, None)
