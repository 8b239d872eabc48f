"""What can go wrong between a client and a server.

CannotConnect       nobody listens there, or TLS or the login failed: exit code 3
ServerError       the server refused the request, with its status code: exit code 1
IncompleteAnswer    the connection ended before the answer did
"""

from __future__ import annotations

from tsdb.errors import Status, TsdbError

CODE_OF_LOGIN_ERRORS = range(7000, 7005)


class CannotConnect(TsdbError):
    """There is no server at the address, or it does not let this client in."""

    status = Status.EXTERNAL


class ServerError(TsdbError):
    """The server answered with an error."""

    status = Status.EXTERNAL

    def __init__(self, message: str, *, code: int | None, http_status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status
        self.retry_after = retry_after

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.http_status in (408, 429, 502, 503, 504)

    def __str__(self) -> str:
        number = f"{self.code}" if self.code is not None else f"HTTP {self.http_status}"
        return f"{number}: {super().__str__()}"


class IncompleteAnswer(TsdbError):
    """The answer broke off."""

    status = Status.EXTERNAL
