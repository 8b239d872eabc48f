"""Frontends in containers listen on all addresses of their hosts; the cluster still tells them apart."""

from __future__ import annotations

import socket

import pytest

from tsdb.components.frontend import told_apart


@pytest.mark.parametrize("address", ["0.0.0.0:4001", "[::]:4001", ":::4001"])
def test_a_frontend_on_all_addresses_has_the_name_of_its_host(address: str) -> None:
    assert told_apart(address) == f"{socket.gethostname()}:4001"


@pytest.mark.parametrize("address", ["127.0.0.1:4001", "frontend-1:4001", "[::1]:4001"])
def test_any_other_address_is_its_name(address: str) -> None:
    assert told_apart(address) == address
