"""The query by which asyncpg learns of types that it does not know: recursive, over domains, ranges and rows.

None of those exist here, so what remains of the tree is a type and the one its arrays are made of. The engine cannot
plan the query as it is written; this is the same query without the recursion. Its answer must not have a type that
would be looked up in turn, such as an array.
"""

from __future__ import annotations

import re

_QUESTION = re.compile(r"\s*WITH\s+RECURSIVE\s+typeinfo_tree\s*\(", re.IGNORECASE)
_WHICH = re.compile(r"ti\.oid\s*=\s*any\s*\(", re.IGNORECASE)

_ANSWER = """
SELECT t.oid, n.nspname AS ns, t.typname AS name, t.typtype AS kind, CAST(NULL AS BIGINT) AS basetype,
    t.typelem AS elemtype, e.typdelim AS elemdelim, CAST(NULL AS BIGINT) AS range_subtype,
    CAST(NULL AS VARCHAR) AS attrtypoids, CAST(NULL AS VARCHAR) AS attrnames, {depth} AS depth,
    CAST(NULL AS VARCHAR) AS basetype_name, format_type(t.typelem, NULL) AS elemtype_name,
    CAST(NULL AS VARCHAR) AS range_subtype_name
FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typelem <> 0
WHERE {where}
"""


def rewrite_type_tree(text: str) -> str | None:
    """Return another text for that query, None for every other one."""
    if _QUESTION.match(text) is None:
        return None
    found = _WHICH.search(text)
    wanted = None if found is None else _bracketed(text, found.end())
    if wanted is None:
        return None
    among = f"array_has({wanted}, CAST(t.oid AS BIGINT))"
    inner = f"t.oid IN (SELECT t.typelem FROM pg_catalog.pg_type t WHERE {among})"
    return (
        f"{_ANSWER.format(depth=1, where=inner)} UNION ALL {_ANSWER.format(depth=0, where=among)} ORDER BY depth DESC"
    )


def _bracketed(text: str, begin: int) -> str | None:
    """What stands in the bracket that was opened before a place, with the numbers of types as numbers."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return re.sub(r"::\s*oid\s*\[\s*\]", "", text[begin:at], flags=re.IGNORECASE)
    return None
