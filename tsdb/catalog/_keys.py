"""Where the catalog keeps what in the store of metadata. Values are JSON.

__catalog_name/{catalog}                    {}
__schema_name/{catalog}/{database}          DatabaseInfo
__table_name/{catalog}/{database}/{name}    the id of the table or view of this name
__table_info/{id}                           TableInfo
__view_info/{id}                            ViewInfo
__table_route/{id}                          the table's regions, each with its partition rule
__table_place/{id}                          the nodes of a cluster that the table's regions are on, see `_places`
__metric_info/{catalog}/{database}/{metric}  what a metric says about itself, see `_metric_descriptions`
__tombstone/{key}                           what a drop has taken away and not yet finished
__procedure/{kind}/{id or database}         a change that is under way, see `_intents`
__change/{procedure}                        what became of a change of a cluster, see `progress`
__meta_seq/table_id                         the id of the next table or view
"""

from __future__ import annotations

from tsdb.model import CATALOG

CATALOG_KEY = f"__catalog_name/{CATALOG}"
DATABASES = f"__schema_name/{CATALOG}/"
NAMES = f"__table_name/{CATALOG}/"
TABLES = "__table_info/"
VIEWS = "__view_info/"
ROUTES = "__table_route/"
PLACES = "__table_place/"
METRICS = f"__metric_info/{CATALOG}/"
TOMBSTONES = "__tombstone/"
PROCEDURES = "__procedure/"
CHANGES = "__change/"
TABLE_SEQUENCE = "__meta_seq/table_id"


def database_key(database: str) -> str:
    return DATABASES + _component(database)


def name_key(database: str, name: str) -> str:
    return f"{NAMES}{_component(database)}/{_component(name)}"


def table_key(table_id: int) -> str:
    return f"{TABLES}{table_id}"


def view_key(view_id: int) -> str:
    return f"{VIEWS}{view_id}"


def route_key(table_id: int) -> str:
    return f"{ROUTES}{table_id}"


def place_key(table_id: int) -> str:
    return f"{PLACES}{table_id}"


def metric_key(database: str, metric: str) -> str:
    return f"{METRICS}{_component(database)}/{_component(metric)}"


def split_metric_key(key: str) -> tuple[str, str]:
    """Return the database and the metric of a key."""
    database, _, metric = key.removeprefix(METRICS).partition("/")
    return _name_of(database), _name_of(metric)


def tombstone_key(key: str) -> str:
    return TOMBSTONES + key


def procedure_key(kind: str, subject: int | str) -> str:
    return f"{PROCEDURES}{kind}/{_component(str(subject))}"


def change_key(procedure_id: str) -> str:
    return CHANGES + _component(procedure_id)


def _component(name: str) -> str:
    """Write a name so that it is one component of a key: names that clients invent may hold a slash."""
    return name.replace("%", "%25").replace("/", "%2F")


def _name_of(component: str) -> str:
    return component.replace("%2F", "/").replace("%25", "%")
