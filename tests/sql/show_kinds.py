"""What `Show.what` may be."""

from __future__ import annotations

SHOW_KINDS = frozenset(
    {
        "databases",
        "tables",
        "table_status",
        "columns",
        "index",
        "region",
        "create_table",
        "create_database",
        "create_view",
        "create_flow",
        "views",
        "flows",
        "flow_status",
        "charset",
        "collation",
        "processlist",
        "variables",  # SHOW VARIABLES [name | LIKE …]
        "variable",  # SHOW name
        "status",
        "search_path",
        "warnings",
        "engines",
        "grants",  # SHOW GRANTS [FOR user]
        "users",
    }
)
