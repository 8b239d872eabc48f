"""Requests over HTTP/1.1, with the standard library: answers are read as they arrive.

A request can be cancelled from any thread, or by KeyboardInterrupt in the reading one: closing the connection is what
tells the server that the client disconnected.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Self
from urllib.parse import urlencode

from tsdb.cli.server._address import ServerAddress
from tsdb.cli.server._errors import CODE_OF_LOGIN_ERRORS, CannotConnect, IncompleteAnswer, ServerError

FORM = "application/x-www-form-urlencoded"
ERROR_BYTES_MAX = 1 << 20
_ERROR_TEXT_CHARS_MAX = 2000


class HttpSession:
    """A connection that is kept between requests; one request at a time."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._connection: HTTPConnection | None = None
        self._is_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.sock is not None:
            # Closing alone does not wake a thread that waits for an answer.
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    def end(self) -> None:
        """Close for good, from any thread: a request under way fails, and so does every later one."""
        self._is_ended = True
        self.close()

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[HttpAnswer]:
        """Send a request and yield the answer, whose body is to be read inside; an error of the server is raised."""
        is_complete = False
        try:
            try:
                answer = self._ask(method, path, params, body, headers)
            except (OSError, HTTPException) as error:
                raise _broken(self._address, error) from error
            read = HttpAnswer(answer, self._address)
            if answer.status >= 300:
                raise _failure(read, self._address)
            yield read
            is_complete = answer.isclosed() and not answer.will_close
        finally:
            if not is_complete:
                self.close()

    def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> HTTPResponse:
        if self._connection is None:
            self._connection = connect(self._address)
            if self._is_ended:  # since `end` looked for a connection to close
                self.close()
                raise IncompleteAnswer("the connection was ended")
        target = f"{self._address.path}{path}" + (f"?{urlencode(params)}" if params else "")
        said = {**self._address.headers, **(headers or {})}
        self._connection.request(method, target, body, said)
        return self._connection.getresponse()


class HttpAnswer:
    """An answer whose body is read as it arrives."""

    def __init__(self, answer: HTTPResponse, address: ServerAddress) -> None:
        self._answer = answer
        self._address = address
        self.status = answer.status
        self.reason = answer.reason

    def header(self, name: str) -> str | None:
        return self._answer.headers.get(name)

    def read(self, size: int | None = None) -> bytes:
        """Return as many bytes, fewer only at the end of the body."""
        try:
            return self._answer.read(size)
        except IncompleteRead as error:
            hint = "its log has the reason; what was received is not complete"
            raise IncompleteAnswer(
                "the server closed the connection before the end of the response", hint=hint
            ) from error
        except (OSError, HTTPException) as error:
            raise _broken(self._address, error) from error

    def readline(self, size: int) -> bytes:
        """Return the next line, or as much of it."""
        try:
            return self._answer.readline(size)
        except IncompleteRead as error:
            raise IncompleteAnswer("the server closed the connection before the end of the response") from error
        except (OSError, HTTPException) as error:
            raise _broken(self._address, error) from error


def _broken(address: ServerAddress, error: Exception) -> IncompleteAnswer:
    limit = address.read_seconds_max
    if isinstance(error, TimeoutError):
        return IncompleteAnswer(f"no answer from {address.url} within {limit:g} s", hint="raise --timeout")
    what = str(error) or type(error).__name__
    return IncompleteAnswer(f"the connection to {address.url} was lost: {what}")


@contextmanager
def send(
    address: ServerAddress,
    method: str,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[HttpAnswer]:
    """Send one request over a connection of its own: one that was idle might be closed just when it is used."""
    with (
        HttpSession(address) as session,
        session.request(method, path, params=params, body=body, headers=headers) as answer,
    ):
        yield answer


def connect(address: ServerAddress) -> HTTPConnection:
    """Open a connection, within its own timeout; reading has another."""
    if address.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            address.host, address.port, timeout=address.connect_seconds, context=_tls_context(address)
        )
    else:
        connection = HTTPConnection(address.host, address.port, timeout=address.connect_seconds)
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as error:
        hint = "give the certificate of its authority with --ca-file, or --insecure to skip the check"
        raise CannotConnect(
            f"the certificate of {address.url} is not trusted: {error.verify_message}", hint=hint
        ) from error
    except (OSError, HTTPException) as error:
        raise CannotConnect(
            f"cannot connect to {address.url}: {_reason(error)}", hint="is the server running? see --url"
        ) from error
    connection.sock.settimeout(address.read_seconds_max)
    return connection


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the connect timeout"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _tls_context(address: ServerAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
        if address.cert_file is not None:
            context.load_cert_chain(address.cert_file, address.key_file)
    except (OSError, ssl.SSLError) as error:
        raise CannotConnect(f"the TLS files cannot be used: {error}") from error
    if not address.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _failure(answer: HttpAnswer, address: ServerAddress) -> Exception:
    """Make an error of an answer; its body is JSON for every error of the product."""
    text = answer.read(ERROR_BYTES_MAX).decode("utf-8", "replace")
    code, message = _read_error(text)
    code = code if code is not None else _number(answer.header("x-tsdb-err-code"))
    shown = message or text.strip()[:_ERROR_TEXT_CHARS_MAX] or answer.reason
    if answer.status == 401 or code in CODE_OF_LOGIN_ERRORS:
        return CannotConnect(f"{address.url} refused the login: {shown}", hint="see --user and --password")
    retry_after = _number(answer.header("retry-after"))
    return ServerError(shown, code=code, http_status=answer.status, retry_after=retry_after)


def _read_error(text: str) -> tuple[int | None, str]:
    import orjson

    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None, ""
    if not isinstance(found, dict):
        return None, ""
    code = found.get("code")
    return code if isinstance(code, int) else None, str(found.get("error") or "")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
