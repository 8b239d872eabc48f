"""Servers with data files in other places than a warm local disk: in object storage, and after a restart."""
