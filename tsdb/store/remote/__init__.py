"""Objects in a bucket of S3, OSS, Azure Blob Storage or Google Cloud Storage."""

from tsdb.store.remote._operator import BucketSettings, Operator, RemoteTuning, make_operator
from tsdb.store.remote._store import PROBE_DIRECTORY, RemoteStore

__all__ = ["PROBE_DIRECTORY", "BucketSettings", "Operator", "RemoteStore", "RemoteTuning", "make_operator"]
