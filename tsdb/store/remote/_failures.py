"""Saying in the store's own words what a service refused, and whether asking again may help.

Services answer with codes of their own, which `opendal` passes on as text. What the operator of a server has to do
about them is decided here. Texts of errors are taken apart and never shown whole: they hold addresses with signatures.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tsdb.store._errors import (
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreMisconfigured,
    StoreUnreachable,
)

_CODE = re.compile(r'\bcode: "([A-Za-z]+)"')
_REASON = re.compile(r'\breason: "([A-Za-z]+)"')
_MESSAGE = re.compile(r'\bmessage: "([^"]{1,200})')
_KIND = re.compile(r"^([A-Za-z]+) \(")
"""How the text begins."""
_STATUS = re.compile(r"\bstatus: (\d{3})")
_SOURCE = re.compile(r"\nSource:\n\s+(.{1,300})")
_WITH_ADDRESS = re.compile(r" ?(for url )?\(https?://[^)]*\)")

_CREDENTIALS = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken", "ExpiredToken", "Forbidden"),
        *("TokenRefreshRequired", "AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"),
        *("AuthorizationPermissionMismatch", "AuthorizationHeaderMalformed", "SecurityTokenExpired", "AccountNotFound"),
        *("NoAuthenticationInformation", "InsufficientAccountPermissions", "UnauthorizedAccess", "InvalidCredentials"),
    }
)
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "InvalidBucketName"})
_BUSY = frozenset({"SlowDown", "ServerBusy", "ServiceUnavailable", "Throttling", "RequestLimitExceeded"})
_BUSY_STATUS = frozenset({"429", "503"})
_NO_ANSWER = ("send http request", "timeout reached")
_UNSUPPORTED = frozenset({"NotImplemented"})


class RequestNotSupported(StoreError):
    """The service does not know this kind of request."""


class AnswerTooShort(StoreUnreachable):
    """A range came with fewer bytes than were asked for: the object is shorter, or the answer was cut short."""


class Failure(NamedTuple):
    """What became of a request that failed."""

    error: StoreError
    is_temporary: bool
    """The same request may succeed if it is repeated."""


def explain(error: Exception, *, action: str, path: str, place: str) -> Failure:
    """Describe an error of opendal; `action` is what was tried, `place` where."""
    text = str(error)
    kind = (_first(_KIND, text) or "Unexpected") if isinstance(error, OSError) else type(error).__name__
    code, status = _code(text), _first(_STATUS, text)
    is_temporary = _is_temporary(text, status)
    said = f"cannot {action} {place}"
    if code in _NO_BUCKET or "bucket does not exist" in text:
        hint = "create it, or correct the name in [storage]"
        return Failure(StoreMisconfigured(f"{said}: the bucket or container does not exist", hint=hint), False)
    if code in _SKEWED:
        hint = "set the clock of this machine, for example with NTP"
        return Failure(StoreMisconfigured(f"{said}: the clock of this machine is wrong ({code})", hint=hint), False)
    if kind == "NotFound":
        return Failure(ObjectNotFound(path), False)
    if kind in ("ConditionNotMatch", "AlreadyExists"):
        return Failure(ObjectExists(path), False)
    if "signing http request" in text and "send http request" in text:
        # Credentials come from a service of their own.
        return Failure(StoreUnreachable(f"{said}: the service that gives credentials does not answer"), True)
    if code in _CREDENTIALS or status in ("401", "403") or kind == "PermissionDenied" or "signing http request" in text:
        reason = code or (status and f"HTTP status {status}") or "none were found"
        hint = "check the keys in [storage] and what they are permitted to do"
        return Failure(StoreMisconfigured(f"{said}: the credentials are refused ({reason})", hint=hint), False)
    if code in _BUSY or status in _BUSY_STATUS or kind == "RateLimited":
        hint = "it asks for fewer requests; they are repeated with longer pauses"
        return Failure(StoreUnreachable(f"{said}: the service is overloaded ({code or status})", hint=hint), True)
    if code in _UNSUPPORTED or status == "501" or kind == "Unsupported":
        return Failure(RequestNotSupported(f"{said}: the service does not support it ({code or status})"), False)
    if kind == "Conflict" or status == "409":
        return Failure(StoreUnreachable(f"{said}: a concurrent request interfered"), True)
    if is_temporary:
        return Failure(StoreUnreachable(f"{said}: {_reason(text, status)}", path=path), True)
    return Failure(StoreError(f"{said}: {_reason(text, status)}", path=path), status.startswith("5"))


def wrong_length(*, path: str, place: str, expected: int, received: int) -> Failure:
    """Describe an answer of the wrong length. One that is too long is repeated; what a short one means is found out."""
    message = f"cannot read from {place}: the service answered with {received} bytes instead of {expected}"
    if received < expected:
        return Failure(AnswerTooShort(message, path=path), is_temporary=False)
    return Failure(StoreUnreachable(message, path=path), is_temporary=True)


def is_too_short(error: Exception) -> bool:
    """Whether opendal missed bytes at the end of a range: of an object that is shorter, or an answer cut short."""
    return type(error).__name__ == "RangeNotSatisfied" or "reader got too little data" in str(error)


def _is_temporary(text: str, status: str) -> bool:
    summary = text.partition("\n")[0]
    if "(persistent)" not in summary:
        return "(temporary)" in summary
    # What opendal gave up repeating is called persistent, whatever it was before.
    return status.startswith("5") or any(sign in text for sign in _NO_ANSWER)


def _code(text: str) -> str:
    # GCS puts the reason in a list of its own, beside a number as code.
    return _first(_CODE, text) or _first(_REASON, text)


def _reason(text: str, status: str) -> str:
    """Choose the part of a text that says the most."""
    source = _WITH_ADDRESS.sub("", _first(_SOURCE, text))
    if source:
        return source.removeprefix("error sending request: ").removeprefix("client error (Connect): ")
    message = _first(_MESSAGE, text)
    if message:
        return message
    summary = text.partition("\n")[0].partition("=> ")[2]
    summary = _WITH_ADDRESS.sub("", summary)
    return f"{summary or 'the service failed'}{status and f' (HTTP status {status})'}"


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
