"""A cluster of real processes: etcd, S3 by moto, metadata servers, datanodes and frontends."""
