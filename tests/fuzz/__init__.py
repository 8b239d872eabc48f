"""Bytes out of shape at every port of a running server."""
