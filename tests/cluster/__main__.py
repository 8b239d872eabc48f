"""`make cluster`: a whole cluster on loopback until Ctrl-C. etcd, S3 by moto, two metadata servers, three datanodes,
two frontends; its data is gone afterwards.

With `--json` it is for programs: free ports, one line of JSON with the processes when the cluster is ready, and SIGTERM
ends it at any time.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.cluster.running import Cluster, Node, Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import running_s3

FIRST_PORTS = (4000, 4010)
"""The HTTP ports of the frontends; gRPC, MySQL and PostgreSQL are the three behind each."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--metasrvs", type=int, default=2)
    parser.add_argument("--datanodes", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="free ports; one line of JSON when the cluster is ready")
    arguments = parser.parse_args()
    # From the first process on: all of them end with this one, also if it is told to before they are ready.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    progress = sys.stderr if arguments.json else sys.stdout
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tsdb-cluster-")))
        print("starting etcd and S3 …", file=progress, flush=True)
        etcd = EtcdProcess(directory)
        etcd.start()
        stack.callback(etcd.kill)
        etcd.wait_ready()
        s3 = stack.enter_context(running_s3())
        shape = Shape(
            metasrvs=arguments.metasrvs,
            datanodes=arguments.datanodes,
            frontends=len(FIRST_PORTS),
            metasrv_environment={"TSDB_METASRV__ENABLE_REGION_FAILOVER": "true"},
            frontend_ports=() if arguments.json else FIRST_PORTS,
        )
        print("starting metadata servers, datanodes and frontends …", file=progress, flush=True)
        cluster = stack.enter_context(running_cluster(directory, shape, etcd=etcd, s3=s3))
        print(processes(cluster) if arguments.json else describe(cluster, directory), flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
        print("stopping …", file=progress, flush=True)


def describe(cluster: Cluster, directory: Path) -> str:
    """What is there, and what can be tried."""
    one, other = FIRST_PORTS
    nodes = [f"  {node.name:<11} {node.url:<24} process {node.running.process.pid}" for node in cluster.nodes]
    return "\n".join(
        [
            "the cluster is ready",
            *nodes,
            f"  files below {directory}",
            "try",
            f"  curl {cluster.url}/v1/influxdb/write --data-binary 'cpu,host=a usage=0.5'",
            f"  curl http://127.0.0.1:{other}/v1/sql -d 'sql=SELECT * FROM cpu'",
            f"  mysql -h 127.0.0.1 -P {one + 2} -u me public",
            f"  curl {cluster.url}/v1/sql -d 'sql=SELECT * FROM information_schema.cluster_info'",
            "  kill -9 PROCESS of a datanode, and query again",
            "Ctrl-C ends everything",
        ]
    )


def processes(cluster: Cluster) -> str:
    """The name, address and process id of every node, by its kind, as JSON."""
    kinds = {
        "frontends": cluster.frontends,
        "datanodes": list(cluster.datanodes.values()),
        "metasrvs": cluster.metasrvs,
    }
    return json.dumps({kind: [_process(node) for node in nodes] for kind, nodes in kinds.items()})


def _process(node: Node) -> dict[str, str | int]:
    return {"name": node.name, "url": node.url, "pid": node.running.process.pid}


if __name__ == "__main__":
    main()
