"""The etcd of the tests of this folder."""

from __future__ import annotations

from tests.kv.conftest import etcd

__all__ = ["etcd"]
