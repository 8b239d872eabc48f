"""Metadata in etcd, by a client of our own on grpcio: the store that the processes of a cluster share.

    settings = EtcdSettings(parse_endpoints("10.0.0.1:2379,10.0.0.2:2379"), key_prefix="tsdb/")
    kv = EtcdKv(settings)

Tested with etcd 3.5. `_client` asks the members, `_transactions` learns the outcome of a change, `_watch` goes on where
a stream ended, `_failures` says what an error means. Why there is an own client: decision 0022.
"""

from tsdb.kv.etcd._settings import Endpoint, EtcdSettings, EtcdTuning, parse_endpoints
from tsdb.kv.etcd._store import EtcdKv
from tsdb.kv.etcd._tls import EtcdTls

__all__ = ["Endpoint", "EtcdKv", "EtcdSettings", "EtcdTls", "EtcdTuning", "parse_endpoints"]
