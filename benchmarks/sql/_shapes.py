"""The queries whose preparation is measured, and the table they read."""

from __future__ import annotations

TABLE = """
CREATE TABLE cpu (
  hostname STRING, region STRING, ts TIMESTAMP TIME INDEX,
  usage_user DOUBLE, usage_system DOUBLE, usage_idle DOUBLE, usage_nice DOUBLE, usage_iowait DOUBLE,
  PRIMARY KEY (hostname, region)
)
"""

SHAPES = {
    "point": (
        "SELECT ts, usage_user FROM cpu WHERE hostname = 'host_1' AND ts >= 1700000000000 AND ts < 1700003600000"
    ),
    "group": (
        "SELECT hostname, date_bin(INTERVAL '1 hour', ts) AS hour, avg(usage_user), avg(usage_system), "
        "avg(usage_idle), avg(usage_nice), avg(usage_iowait) FROM cpu WHERE ts >= 1700000000000 AND ts < 1700043200000 "
        "GROUP BY hostname, hour ORDER BY hostname, hour"
    ),
    "join": (
        "WITH hourly AS (SELECT hostname, region, date_bin(INTERVAL '1 hour', ts) AS hour, max(usage_user) AS top "
        "FROM cpu WHERE ts >= '2023-11-14 22:13:20' GROUP BY hostname, region, hour), "
        "means AS (SELECT region, avg(usage_user) AS mean FROM cpu GROUP BY region) "
        "SELECT h.hostname, h.hour, h.top, m.mean, "
        "row_number() OVER (PARTITION BY h.hostname ORDER BY h.top DESC) AS place "
        "FROM hourly AS h JOIN means AS m ON h.region = m.region WHERE h.top > m.mean "
        "ORDER BY h.hostname, place LIMIT 100"
    ),
}
