"""Results as people and programs read them: tables, records, CSV, JSON lines, Arrow, charts."""

from tsdb.cli.shown._cells import TimeStyle, cell_texts
from tsdb.cli.shown._formats import FORMAT_NAMES, TextSink, csv_head, csv_lines, json_lines, show_rows
from tsdb.cli.shown._plot import draw_plot

__all__ = [
    "FORMAT_NAMES",
    "TextSink",
    "TimeStyle",
    "cell_texts",
    "csv_head",
    "csv_lines",
    "draw_plot",
    "json_lines",
    "show_rows",
]
