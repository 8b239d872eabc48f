"""Processes beside the server: forked from one that has imported everything, and talked to over Unix sockets.

Forker ─▶ fork server ─▶ process that runs a `Program`: a query worker, a fast worker
"""
