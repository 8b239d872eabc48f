"""The options of every command that talks to a running server, and what they say together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tsdb.cli._options import option_group
from tsdb.errors import InvalidArguments
from tsdb.units import Duration

if TYPE_CHECKING:
    from tsdb.cli.server import ServerAddress

CONNECTION = "Connection"
DEFAULT_DATABASE = "public"
_ASK = "\0ask"

_Command = TypeVar("_Command", bound=Callable[..., Any])


_option = option_group(CONNECTION)


_OPTIONS = (
    _option(
        "--url",
        metavar="URL",
        envvar="TSDB_URL",
        help="HTTP address of the server, http[s]://[USER[:PASSWORD]@]HOST[:PORT].  "
        "[env: TSDB_URL; default: http://127.0.0.1:4000]",
    ),
    _option("--host", metavar="HOST", help="Host of the server, instead of --url."),
    _option("--port", metavar="PORT", type=click.IntRange(1, 65535), help="Port of its HTTP server, with --host."),
    _option("-u", "--user", metavar="NAME", envvar="TSDB_USER", help="User name.  [env: TSDB_USER]"),
    _option(
        "-p",
        "--password",
        metavar="[PASSWORD]",
        is_flag=False,
        flag_value=_ASK,
        envvar="TSDB_PASSWORD",
        help="Password. Without a value, or with a user but no password, it is prompted for.  [env: TSDB_PASSWORD]",
    ),
    _option(
        "-d",
        "--database",
        metavar="NAME",
        envvar="TSDB_DATABASE",
        default=DEFAULT_DATABASE,
        help="Database.  [env: TSDB_DATABASE; default: public]",
    ),
    _option("--ca-file", metavar="FILE", help="CA certificates to verify the server with (PEM)."),
    _option("--cert-file", metavar="FILE", help="Client certificate (PEM)."),
    _option("--key-file", metavar="FILE", help="Key of the client certificate (PEM)."),
    _option("--insecure", is_flag=True, help="Do not verify the certificate of the server."),
    _option(
        "--timeout",
        metavar="DURATION",
        help="Timeout of each statement or request, such as 30s or 5m; 0 for none.  [default: that of the server]",
    ),
    _option("--connect-timeout", metavar="DURATION", default="10s", show_default=True, help="Connection timeout."),
)


_NAMES = (
    "url",
    "host",
    "port",
    "user",
    "password",
    "ca_file",
    "cert_file",
    "key_file",
    "insecure",
    "timeout",
    "connect_timeout",
)


def connection_options(function: _Command) -> _Command:
    """Give a command the options; it gets `address`, a function that returns the ServerAddress, and `database`."""

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        chosen = {name: given.pop(name) for name in _NAMES}
        return function(*args, address=lambda: _address(**chosen), **given)

    decorated: Any = run
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _address(
    *,
    url: str | None,
    host: str | None,
    port: int | None,
    user: str | None,
    password: str | None,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    insecure: bool,
    timeout: str | None,
    connect_timeout: str,
) -> ServerAddress:
    """Bring the options together; a wrong one is an error of usage."""
    from tsdb.cli.server import parse_address

    try:
        if host is not None or port is not None:
            is_tls = any((ca_file, cert_file, insecure))
            name = host or "127.0.0.1"
            shown = f"[{name}]" if ":" in name else name
            found = parse_address(f"{'https' if is_tls else 'http'}://{shown}:{port or 4000}")
        else:
            found = parse_address(url or "http://127.0.0.1:4000")
        found = replace(
            found,
            user=user if user is not None else found.user,
            password=password if password is not None else found.password,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            verifies=not insecure,
            timeout_seconds=None if timeout is None else _seconds(timeout),
            connect_seconds=_seconds(connect_timeout) or 10.0,
        )
    except InvalidArguments as error:
        raise click.UsageError(str(error)) from error
    return _with_password(found)


def _seconds(text: str) -> float:
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise InvalidArguments(f"{text!r} is not a duration such as 30s or 5m: {error}") from error


def _with_password(address: ServerAddress) -> ServerAddress:
    """Prompt for the password if requested, or if it is missing and there is a terminal."""
    is_missing = address.user is not None and address.password is None and os.isatty(0)
    if address.password != _ASK and not is_missing:
        return address
    if not os.isatty(0):
        raise click.UsageError("the password cannot be asked for without a terminal; set TSDB_PASSWORD")
    return replace(
        address, password=click.prompt("Password", hide_input=True, err=True, default="", show_default=False)
    )
