"""collectd and telnet write lines of OpenTSDB."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path
from typing import IO

from tests.clients.programs import find_program, free_port, program, snippet, telnet_address, wait_rows
from tests.server_process import ServerProcess


def test_what_collectd_measures_is_in_the_server(server: ServerProcess, tmp_path: Path) -> None:
    config = tmp_path / "collectd.conf"
    config.write_text(
        f'Hostname "myhost"\nFQDNLookup false\nInterval 1\nBaseDir "{tmp_path}"\nPIDFile "{tmp_path}/pid"\n'
        f"LoadPlugin load\nLoadPlugin uptime\n{snippet('collectd', server)}"
    )
    with program(tmp_path, "collectd", "-f", "-C", str(config)) as output:
        text = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'load.load%' ORDER BY table_name"
        wait_rows(server, 'SELECT fqdn FROM "load.load.longterm" LIMIT 1', output=output)
        assert [name for (name,) in wait_rows(server, text, output=output)] == [
            "load.load.longterm",
            "load.load.midterm",
            "load.load.shortterm",
        ]
        rows = wait_rows(server, 'SELECT fqdn, tsdb_value FROM "uptime.uptime" LIMIT 1', output=output)
        assert rows[0][0] == "myhost"
        assert rows[0][1] > 0
        rows = wait_rows(server, 'SELECT count(*) FROM "uptime.uptime" HAVING count(*) > 2', output=output)
        assert rows[0][0] > 2


def test_what_one_collectd_sends_to_another_over_the_network_is_in_the_server(
    server: ServerProcess, tmp_path: Path
) -> None:
    port, common = free_port(), "FQDNLookup false\nInterval 1\nLoadPlugin network\n"
    places = {name: tmp_path / name for name in ("sender", "receiver")}
    for name, place in places.items():
        place.mkdir()
        own = f'Hostname "{name}"\nBaseDir "{place}"\nPIDFile "{place}/pid"\n{common}'
        if name == "sender":
            own += f'LoadPlugin uptime\n<Plugin network>\n  Server "127.0.0.1" "{port}"\n</Plugin>\n'
        else:
            own += f'<Plugin network>\n  Listen "127.0.0.1" "{port}"\n</Plugin>\n{snippet("collectd", server)}'
        (place / "collectd.conf").write_text(own)
    receiver, sender = (("-f", "-C", str(places[name] / "collectd.conf")) for name in ("receiver", "sender"))
    with (
        program(places["receiver"], "collectd", *receiver) as output,
        program(places["sender"], "collectd", *sender),
    ):
        text = (
            "SELECT source, count(*) FROM \"uptime.uptime\" WHERE fqdn = 'sender' GROUP BY source HAVING count(*) > 1"
        )
        rows = wait_rows(server, text, output=output)
    assert [source for source, _ in rows] == ["collectd"]


def test_lines_typed_into_telnet_are_in_the_server_and_wrong_ones_are_answered(server: ServerProcess) -> None:
    host, port = telnet_address(server)
    asked = [find_program("telnet"), host, str(port)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as telnet:
        assert telnet.stdin is not None
        assert telnet.stdout is not None
        telnet.stdin.write(b"put typed.x 1667898896 1.5 h=a\nput typed.x\nversion\n")
        # It ends with its input, whatever is still to be shown: wait for the answer to the last line.
        said = _read_until(telnet.stdout, b"tsdb 0")
        telnet.stdin.write(b"quit\n")
        assert telnet.wait(10) == 0
    assert b"not enough arguments (need least 4, got 2)" in said
    assert wait_rows(server, 'SELECT h, tsdb_value FROM "typed.x"') == [["a", 1.5]]


def _read_until(pipe: IO[bytes], words: bytes) -> bytes:
    said, deadline = b"", time.monotonic() + 30
    while words not in said:
        left = deadline - time.monotonic()
        assert left > 0, said
        if select.select([pipe], [], [], left)[0]:
            piece = os.read(pipe.fileno(), 4096)
            assert piece, said
            said += piece
    return said
