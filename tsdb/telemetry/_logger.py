"""Loggers that take fields: `log.info("region opened", region=7, rows=120)`.

A thin layer over the standard library, where the libraries we use log too: names, levels and propagation are
its own. A message is plain text, never a format string, so a `%` in it is just a `%`. What a traced request logs has
the field `trace_id`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TypeAlias

from tsdb.telemetry._spans import current_span

FIELDS_ATTRIBUTE = "tsdb_fields"
"""Where the fields ride on a `logging.LogRecord`."""

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_BARE = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")


class Logger:
    """Writes messages with fields under one name. A call below the level costs a dictionary lookup."""

    __slots__ = ("_is_enabled_for", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_enabled_for = logger.isEnabledFor

    @property
    def name(self) -> str:
        return self._logger.name

    def debug(self, message: str, /, **fields: object) -> None:
        if self._is_enabled_for(logging.DEBUG):
            self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        if self._is_enabled_for(logging.INFO):
            self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        if self._is_enabled_for(logging.WARNING):
            self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, *, exc_info: BaseException | None = None, **fields: object) -> None:
        """Write an error, with the traceback of an exception if there is one."""
        if self._is_enabled_for(logging.ERROR):
            found = None if exc_info is None else (type(exc_info), exc_info, exc_info.__traceback__)
            self._write(logging.ERROR, message, fields, found)

    def exception(self, message: str, /, **fields: object) -> None:
        """Write an error with the traceback of the exception that is being handled."""
        if self._is_enabled_for(logging.ERROR):
            self._write(logging.ERROR, message, fields, sys.exc_info())

    def _write(self, level: int, message: str, fields: Mapping[str, object], exc_info: _ExcInfo | None = None) -> None:
        logger = self._logger
        # Where in the source the call stands is not part of our lines; finding it out would cost as much as
        # the rest.
        span = current_span()
        extra = {FIELDS_ATTRIBUTE: fields if span is None else {**fields, "trace_id": span.trace_id_text}}
        logger.handle(logger.makeRecord(logger.name, level, "", 0, message, (), exc_info, extra=extra))


def get_logger(name: str) -> Logger:
    """Return the logger of that name; `__name__` is the usual one."""
    return Logger(logging.getLogger(name))


def render_fields(fields: Mapping[str, object]) -> str:
    """Write fields as ` key=value key2="with space"`, each with a space before it."""
    return "".join(f" {name}={_render_value(value)}" for name, value in fields.items())


def _render_value(value: object) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
