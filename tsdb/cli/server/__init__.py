"""A running server as its command-line clients see it: its address, requests, and results as Arrow batches."""

from tsdb.cli.server._address import ServerAddress, parse_address
from tsdb.cli.server._errors import CannotConnect, IncompleteAnswer, ServerError
from tsdb.cli.server._http import HttpSession, send
from tsdb.cli.server._results import AffectedRows, ResultRows, StatementResult, run_promql, run_statement

__all__ = [
    "AffectedRows",
    "CannotConnect",
    "HttpSession",
    "IncompleteAnswer",
    "ResultRows",
    "ServerAddress",
    "ServerError",
    "StatementResult",
    "parse_address",
    "run_promql",
    "run_statement",
    "send",
]
