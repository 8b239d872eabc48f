"""Index files: blobs that are read in parts, indexes of tags, filters of fields. Format: `docs/format/sst.md`."""

from tsdb.engine.index._bloom import (
    BLOOM,
    BloomBuilder,
    BloomIndex,
    bloom_blob,
    is_skippable,
)
from tsdb.engine.index._container import IndexDamaged, IndexFile, encode_index
from tsdb.engine.index._granules import FilterPages, RowSpan
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
from tsdb.engine.index._pages import PagedBlob, directory_blob, encode_pages
from tsdb.engine.index._postings import Postings
from tsdb.engine.index._spill import CRASH_POINTS, clean_spills
from tsdb.engine.index._text import (
    BITMAP_BYTES,
    FULLTEXT,
    TextAll,
    TextAny,
    TextBuilder,
    TextHolds,
    TextIndex,
    TextNode,
    TextTest,
    fulltext_blob,
    is_searchable,
    is_selective,
)

__all__ = [
    "BITMAP_BYTES",
    "BLOOM",
    "CRASH_POINTS",
    "FULLTEXT",
    "INVERTED",
    "BloomBuilder",
    "BloomIndex",
    "FilterPages",
    "IndexDamaged",
    "IndexFile",
    "IndexOptions",
    "InvertedIndex",
    "PagedBlob",
    "Postings",
    "RowSpan",
    "TagTest",
    "TextAll",
    "TextAny",
    "TextBuilder",
    "TextHolds",
    "TextIndex",
    "TextNode",
    "TextTest",
    "ValueSpan",
    "bloom_blob",
    "clean_spills",
    "directory_blob",
    "encode_index",
    "encode_inverted",
    "encode_pages",
    "fulltext_blob",
    "inverted_blob",
    "is_indexable",
    "is_searchable",
    "is_selective",
    "is_skippable",
]
