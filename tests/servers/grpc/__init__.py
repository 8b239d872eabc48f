"""Tests of the gRPC server."""
