"""Notifications to systemd (`Type=notify`): when the process is ready, and when it begins to stop.

A notification is one datagram to the socket that the service manager names in `NOTIFY_SOCKET`. Without that variable
nothing is sent. A notification that cannot be sent is logged: the process serves all the same.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from tsdb.telemetry import get_logger

READY = "READY=1"
STOPPING = "STOPPING=1"

_SEND_SECONDS_MAX = 1.0
_log = get_logger("tsdb.process")


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state to the service manager, if there is one."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A name that begins with @ is in the abstract namespace of Linux, where it begins with a zero byte.
    path = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_SECONDS_MAX)
            sender.connect(path)
            sender.send(state.encode())
    except OSError as error:
        _log.warning("the service manager was not notified", socket=address, state=state, error=error)
