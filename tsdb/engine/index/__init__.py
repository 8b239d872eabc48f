"""Index files: blobs that are read in parts, and inverted indexes of tags. Format: `docs/format/sst.md`."""

from tsdb.engine.index._bloom import (
    BLOOM,
    BloomBuilder,
    BloomIndex,
    RowSpan,
    bloom_blob,
    hash_values,
    is_skippable,
)
from tsdb.engine.index._container import IndexDamaged, IndexFile, encode_index
from tsdb.engine.index._inverted import (
    INVERTED,
    InvertedIndex,
    TagTest,
    ValueSpan,
    encode_inverted,
    inverted_blob,
    is_indexable,
)
from tsdb.engine.index._options import IndexOptions
from tsdb.engine.index._pages import PagedBlob, PageDirectory, directory_blob, encode_pages
from tsdb.engine.index._postings import Postings, sort_postings
from tsdb.engine.index._spill import clean_spills

__all__ = [
    "BLOOM",
    "INVERTED",
    "BloomBuilder",
    "BloomIndex",
    "IndexDamaged",
    "IndexFile",
    "IndexOptions",
    "InvertedIndex",
    "PageDirectory",
    "PagedBlob",
    "Postings",
    "RowSpan",
    "TagTest",
    "ValueSpan",
    "bloom_blob",
    "clean_spills",
    "directory_blob",
    "encode_index",
    "encode_inverted",
    "encode_pages",
    "hash_values",
    "inverted_blob",
    "is_indexable",
    "is_skippable",
    "sort_postings",
]
