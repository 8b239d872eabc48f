"""Objects in a bucket of S3, OSS, Azure Blob Storage or Google Cloud Storage."""

from tsdb.store.remote._operator import BucketSettings, RemoteTuning
from tsdb.store.remote._store import RemoteStore

__all__ = ["BucketSettings", "RemoteStore", "RemoteTuning"]
