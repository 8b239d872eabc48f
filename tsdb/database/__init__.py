"""The database: one facade for every protocol. Statements for a session in, answers out."""

from tsdb.database._cluster_admin import ClusterCommands
from tsdb.database._failures import note_text
from tsdb.database._processes import Connected, Process, ProcessList
from tsdb.database._repeated import RepeatedQuery
from tsdb.database._services import DatabaseOptions, OpenScratch, RecordType, Services, SlowQuerySettings
from tsdb.database.copying.restore_table import restore_table
from tsdb.database.database import Database
from tsdb.database.port import DatabaseGate, DatabasePort, NotReady, resolve_database
from tsdb.database.prometheus.metrics import FederatedSample
from tsdb.database.showing.headings import with_headings
from tsdb.database.writing.cells import canonical_json
from tsdb.database.writing.rejections import RejectionLog
from tsdb.query import Affected, Channel, Output, Records, Session, read_all

__all__ = [
    "Affected",
    "Channel",
    "ClusterCommands",
    "Connected",
    "Database",
    "DatabaseGate",
    "DatabaseOptions",
    "DatabasePort",
    "FederatedSample",
    "NotReady",
    "OpenScratch",
    "Output",
    "Process",
    "ProcessList",
    "RecordType",
    "Records",
    "RejectionLog",
    "RepeatedQuery",
    "Services",
    "Session",
    "SlowQuerySettings",
    "canonical_json",
    "note_text",
    "read_all",
    "resolve_database",
    "restore_table",
    "with_headings",
]
