"""Rows in memory: series, slices, sorted sources, memtables and the merge that all of them share.

    series, slices ─▶ source (sorted rows) ─▶ merge (newest version of every key) ─▶ memtable

`cache` holds what is decoded of data files; `write_buffer` and `merge_memory` bound what memtables and merges take.
Nothing here knows of the log, of manifests or of files.
"""
