"""How long a region cannot be written after its datanode was killed, with default timings and 100 MB not flushed.

etcd, S3 by moto and five processes of the database share the machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.cluster.running import Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import running_s3

UNFLUSHED_BYTES = 100 << 20
BODY_ROWS = 5000
ROW_BYTES = 33
"""About what a row of this table takes in the write buffer."""
FAILOVER = {"TSDB_METASRV__ENABLE_REGION_FAILOVER": "true"}


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name, running_s3() as s3:
        directory = Path(name)
        etcd = EtcdProcess(directory)
        etcd.start()
        try:
            etcd.wait_ready()
            shape = Shape(datanodes=3, metasrv_environment=FAILOVER)
            with running_cluster(directory, shape, etcd=etcd, s3=s3) as cluster:
                with httpx.Client(base_url=cluster.url, timeout=120) as client:
                    rows = fill(client)
                (node,) = cluster.place_of("cpu").values()
                ((size,),) = cluster.sql("SELECT sum(memtable_size) FROM information_schema.region_statistics")
                cluster.datanodes[node].kill()
                started = time.perf_counter()
                while not is_written(cluster.url):
                    time.sleep(0.05)
                seconds = time.perf_counter() - started
                assert cluster.sql("SELECT count(*) FROM cpu") == [[rows + 1]]
                print(f"  {size / 1e6:.0f} MB and {rows} rows were not flushed; all are there")
                yield Measurement("from kill -9 to the next acknowledged write", seconds, 1, "failovers")
        finally:
            etcd.kill()


def fill(client: httpx.Client) -> int:
    rows = UNFLUSHED_BYTES // ROW_BYTES // BODY_ROWS * BODY_ROWS
    for at in range(0, rows, BODY_ROWS):
        lines = (
            f"cpu,host=h{number % 100} a={number}.5,b={number}.25 {number + 1}" for number in range(at, at + BODY_ROWS)
        )
        client.post("/v1/influxdb/write", content="\n".join(lines).encode()).raise_for_status()
    return rows


def is_written(url: str) -> bool:
    try:
        response = httpx.post(f"{url}/v1/influxdb/write", content=b"cpu,host=after a=1,b=1 1", timeout=5)
    except httpx.HTTPError:
        return False
    return response.status_code == 204
