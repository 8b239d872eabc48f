"""Results as people and programs read them: tables, records, CSV, JSON lines, Arrow, charts."""

from __future__ import annotations

from tsdb.cli.shown._cells import NULL_TEXT, TimeStyle, cell_texts, timestamps_as_text
from tsdb.cli.shown._formats import FORMAT_NAMES, TextSink, csv_head, csv_lines, json_lines, show_rows
from tsdb.cli.shown._plot import PlotImpossible, draw_plot

__all__ = [
    "FORMAT_NAMES",
    "NULL_TEXT",
    "PlotImpossible",
    "TextSink",
    "TimeStyle",
    "cell_texts",
    "csv_head",
    "csv_lines",
    "draw_plot",
    "json_lines",
    "show_rows",
    "timestamps_as_text",
]
