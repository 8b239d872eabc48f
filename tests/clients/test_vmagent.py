"""vmagent scrapes the server and writes to it, and passes on what others send it."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.clients.programs import free_port, program, snippet, wait_json, wait_rows
from tests.server_process import ServerProcess


def test_what_vmagent_scrapes_and_takes_is_in_the_server(server: ServerProcess, tmp_path: Path) -> None:
    arguments = snippet("vmagent", server).replace("\\\n", " ").split()
    assert arguments.pop(0) == "vmagent"
    (tmp_path / "scrape.yml").write_text(
        "scrape_configs:\n- job_name: tsdb\n  scrape_interval: 1s\n  static_configs:\n"
        f"  - targets: ['{server.url.removeprefix('http://')}']\n"
    )
    address = f"127.0.0.1:{free_port()}"
    with program(tmp_path, "vmagent", *arguments, f"-httpListenAddr={address}") as output:
        text = "SELECT job, tsdb_value FROM up WHERE tsdb_value = 1 LIMIT 1"
        assert wait_rows(server, text, output=output, database="agents") == [["tsdb", 1.0]]
        wait_json(f"http://{address}/api/v1/targets", {}, ("status",))
        httpx.post(f"http://{address}/write", content="passed,host=a on=7", timeout=10).raise_for_status()
        text = "SELECT host, tsdb_value FROM passed_on"
        assert wait_rows(server, text, output=output, database="agents") == [["a", 7.0]]
