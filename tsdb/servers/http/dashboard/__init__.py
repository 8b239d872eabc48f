"""The dashboard: a page in the browser, served at `/dashboard/`.

Its sources are in `dashboard/`; `make dashboard` builds them into the folder `site` of this package. The page asks the
same endpoints as any other client, so nothing here knows the database.
"""

from tsdb.servers.http.dashboard._routes import dashboard_routes

__all__ = ["dashboard_routes"]
