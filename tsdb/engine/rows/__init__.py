"""Rows in memory: series, slices, sorted sources, memtables and their merge.

    series, slices, narrow ─▶ source (sorted rows) ─▶ merge (newest version of every key) ─▶ memtable
    keys (series under numbers), packed ─▶ compact (compressed rows) ─▶ partition_tree (another memtable)

`cache` holds what is decoded of data files; `write_buffer` and `merge_memory` bound what memtables and merges take.
Nothing here knows of the log, of manifests or of files.
"""
