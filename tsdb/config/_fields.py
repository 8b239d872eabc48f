"""The value types of configuration keys, and the base of all sections.

A value comes from a TOML file, where it has a type of its own, or as text from an option or environment variable. Text
of the latter kind is wrapped in `Text` before validation, so that `num_workers = "8"` in a file is a wrong type while
`…__NUM_WORKERS=8` in the environment is the number it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError

from tsdb.units import Duration, Size


class Text(str):
    """A value given as text by an option or an environment variable: its key decides what it means."""

    __slots__ = ()


_PRICE_MAX = 1_000_000

LIMIT_MIN = Size.parse("256MB")
"""The least memory limit: the processes of a server that is idle take 200 MiB."""


class Section(BaseModel):
    """One table of the configuration: immutable, and every key in it is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Address:
    """A listening or target address, `host:port`; an IPv6 host stands in brackets."""

    __slots__ = ("host", "port")
    _FORM = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/@]+)):(\d{1,5})")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port`; raise ValueError with the expected form otherwise."""
        match = cls._FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not an address, expected host:port such as 127.0.0.1:4000")
        if int(match[3]) > 65535:
            raise ValueError(f"{text!r} is not an address, a port is at most 65535")
        return cls(match[1] or match[2], int(match[3]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class StoreAddress(Address):
    """Address of a member of etcd; one that begins with `https://` is reached over TLS, with `http://` without."""

    __slots__ = ("scheme",)
    _SCHEME = re.compile(r"(https?)://(.*?)/?")

    def __init__(self, host: str, port: int, scheme: str = "") -> None:
        super().__init__(host, port)
        self.scheme = scheme

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` with or without a scheme; raise ValueError with the expected forms otherwise."""
        found = cls._SCHEME.fullmatch(text.strip())
        match = cls._FORM.fullmatch(found[2] if found else text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not an address, expected host:port or https://host:port")
        if int(match[3]) > 65535:
            raise ValueError(f"{text!r} is not an address, a port is at most 65535")
        return cls(match[1] or match[2], int(match[3]), found[1] if found else "")

    def __str__(self) -> str:
        return f"{self.scheme}://{super().__str__()}" if self.scheme else super().__str__()


def problem(message: str) -> PydanticCustomError:
    """Make a validation error whose text is shown as it is."""
    return PydanticCustomError("value", "{message}", {"message": message})


def show_value(value: object) -> str:
    """Write a value as it would stand in a TOML file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"[{', '.join(show_value(item) for item in value)}]"
    return repr(str(value)) if isinstance(value, str) else str(value)


T = TypeVar("T")


def _parsed(kind: type[T], parse: Callable[[str], T], expected: str) -> Callable[[object], object]:
    """Build a validator that turns text into `kind` by `parse` and refuses everything else."""

    def validate(value: object) -> object:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise problem(f"{show_value(value)} is not {expected}")
        try:
            return parse(str(value))
        except ValueError as error:
            raise problem(str(error)) from None

    return validate


def _integer(value: object) -> object:
    if isinstance(value, Text):
        if not re.fullmatch(r"\s*[+-]?\d+\s*", value):
            raise problem(f"{show_value(value)} is not a whole number")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise problem(f"{show_value(value)} is not a whole number")
    return value


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, Text) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise problem(f"{show_value(value)} is not a boolean, expected true or false")


def _automatic(value: object) -> object:
    """A flag, or `auto`."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    return _boolean(value)


def _string(value: object) -> object:
    if not isinstance(value, str):
        raise problem(f"{show_value(value)} is not a string")
    return str(value)


def _required_string(value: object) -> object:
    text = _string(value)
    if not text:
        raise problem("an empty string is not allowed here")
    return text


def _number(value: object) -> int | float:
    if isinstance(value, Text):
        try:
            return float(value)
        except ValueError:
            raise problem(f"{show_value(value)} is not a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise problem(f"{show_value(value)} is not a number")
    return value


def _ratio(value: object) -> object:
    number = _number(value)
    if not 0 <= number <= 1:
        raise problem(f"{number} is not a ratio, expected a number from 0 to 1")
    return float(number)


def _price(value: object) -> object:
    number = _number(value)
    if not 0 <= number <= _PRICE_MAX:
        raise problem(f"{number} is not a price, expected a number from 0 to {_PRICE_MAX}")
    return float(number)


A = TypeVar("A", bound=Address)


def parse_addresses(text: str, kind: type[A]) -> tuple[A, ...]:
    """Read addresses separated by commas or white space."""
    return tuple(kind.parse(item) for item in re.split(r"[\s,]+", text) if item)


def _read_addresses(value: object, kind: type[A]) -> tuple[A, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    if not isinstance(value, str):
        raise problem(f"{show_value(value)} is not a list of addresses")
    try:
        addresses = parse_addresses(value, kind)
    except ValueError as error:
        raise problem(str(error)) from None
    if not addresses:
        raise problem("at least one address is needed")
    return addresses


def _addresses(value: object) -> object:
    return _read_addresses(value, Address)


class JoinedAddresses(tuple[StoreAddress, ...]):
    """Several addresses in a key that is one string, `host:port,host:port`."""

    def __str__(self) -> str:
        return ",".join(str(address) for address in self)


def _joined_addresses(value: object) -> object:
    return JoinedAddresses(_read_addresses(value, StoreAddress))


OPERATIONAL_ENDPOINTS = ("/", "/health", "/ready", "/status", "/metrics", "/config")
"""What can be opened to everybody; `/debug/` cannot, because it changes the process."""


def _endpoints(value: object) -> object:
    """Read a list of paths, or paths separated by commas."""
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise problem(f"{show_value(value)} is not a list of paths")
    for path in value:
        if path not in OPERATIONAL_ENDPOINTS:
            raise problem(f"{path!r} cannot be public, expected some of {', '.join(OPERATIONAL_ENDPOINTS)}")
    return tuple(dict.fromkeys(value))


def _secret(value: object) -> object:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str):
        raise problem("the value is not a string")
    return SecretStr(str(value))


def _headers(value: object) -> object:
    """Read a table of HTTP headers, or `Name=value` items separated by commas."""
    if isinstance(value, Text):
        items = [item.partition("=") for item in value.split(",") if item.strip()]
        if any(not separator for _, separator, _ in items):
            raise problem("the value is not a list of headers, expected Name=value,Name=value")
        value = {name.strip(): text.strip() for name, _, text in items}
    if not isinstance(value, dict) or not all(isinstance(text, str | SecretStr) for text in value.values()):
        raise problem("the value is not a table of strings")
    for name in value:
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise problem(f"{name!r} is not an HTTP header name")
    return {name: text if isinstance(text, SecretStr) else SecretStr(text) for name, text in value.items()}


E = TypeVar("E", bound=StrEnum)


def fold_name(name: str) -> str:
    """Reduce a name to what its spellings have in common: `LeaseBased`, `lease_based` and `lease-based` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _choice(kind: type[E], aliases: dict[str, E] | None = None) -> Any:
    """Build the type of a key that takes one of a few names, in any common spelling."""
    known = {fold_name(member.value): member for member in kind}
    known.update({fold_name(alias): member for alias, member in (aliases or {}).items()})
    names = ", ".join(member.value for member in kind)

    def validate(value: object) -> object:
        if isinstance(value, str) and (member := known.get(fold_name(value))) is not None:
            return member
        raise problem(f"{show_value(value)} is not one of {names}")

    return BeforeValidator(validate)


class TlsMode(StrEnum):
    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify_ca"
    VERIFY_FULL = "verify_full"


class LogLevel(StrEnum):
    INFO = "info"
    DEBUG = "debug"
    ERROR = "error"
    WARN = "warn"


class AcknowledgeMode(StrEnum):
    """When a write to a shared log is acknowledged."""

    STORE = "store"
    LOCAL = "local"


class IndexMode(StrEnum):
    AUTO = "auto"
    DISABLE = "disable"


class MemtableType(StrEnum):
    TIME_SERIES = "time_series"
    PARTITION_TREE = "partition_tree"


class SlowQueryRecord(StrEnum):
    """Where slow statements are recorded."""

    SYSTEM_TABLE = "system_table"
    LOG = "log"


class Selector(StrEnum):
    LEASE_BASED = "lease_based"
    LOAD_BASED = "load_based"


_SIZE_FORM = "a size, expected a string such as 64MB or 1GiB"


def _size(value: object) -> object:
    """Sizes are strings with a unit; a bare 0, the usual way to switch a cache off, needs none."""
    if value == 0 and not isinstance(value, bool | str):
        return Size(0)
    return _parsed(Size, Size.parse, _SIZE_FORM)(value)


def _size_or_empty(value: object) -> object:
    return None if value is None or (isinstance(value, str) and not value.strip()) else _size(value)


def _positive_size(value: object) -> object:
    size = _size(value)
    if size == 0:
        raise problem("0 is not allowed here")
    return size


def _memory_limit(value: object) -> object:
    size = _size(value)
    if isinstance(size, Size) and size < LIMIT_MIN:
        raise problem(f"{size} is too little; the minimum is {LIMIT_MIN}")
    return size


def _positive_duration(value: object) -> object:
    duration = _duration(value)
    if duration == 0:
        raise problem("0 is not allowed here")
    return duration


def _address_or_empty(value: object) -> object:
    return None if value is None or value == "" else _address(value)


_duration = _parsed(Duration, Duration.parse, "a duration, expected a string such as 30s or 10m")
_address = _parsed(Address, Address.parse, "an address, expected a string such as 127.0.0.1:4000")

SizeValue = Annotated[Size, BeforeValidator(_size)]
PositiveSizeValue = Annotated[Size, BeforeValidator(_positive_size)]
MemoryLimitValue = Annotated[Size, BeforeValidator(_memory_limit)]
OptionalSizeValue = Annotated[Size | None, BeforeValidator(_size_or_empty)]
DurationValue = Annotated[Duration, BeforeValidator(_duration)]
PositiveDurationValue = Annotated[Duration, BeforeValidator(_positive_duration)]
AddressValue = Annotated[Address, BeforeValidator(_address)]
OptionalAddressValue = Annotated[Address | None, BeforeValidator(_address_or_empty)]
AddressesValue = Annotated[tuple[Address, ...], BeforeValidator(_addresses)]
JoinedAddressesValue = Annotated[JoinedAddresses, BeforeValidator(_joined_addresses)]
EndpointsValue = Annotated[tuple[str, ...], BeforeValidator(_endpoints)]
CountValue = Annotated[int, BeforeValidator(_integer), Field(ge=0)]
AutomaticCountValue = Annotated[int, BeforeValidator(_integer), Field(ge=-1)]
PositiveValue = Annotated[int, BeforeValidator(_integer), Field(ge=1)]
FlagValue = Annotated[bool, BeforeValidator(_boolean)]
AutomaticFlagValue = Annotated[bool | Literal["auto"], BeforeValidator(_automatic)]
StringValue = Annotated[str, BeforeValidator(_string)]
RequiredStringValue = Annotated[str, BeforeValidator(_required_string)]
PriceValue = Annotated[float, BeforeValidator(_price)]
RatioValue = Annotated[float, BeforeValidator(_ratio)]
SecretValue = Annotated[SecretStr, BeforeValidator(_secret)]
HeadersValue = Annotated[dict[str, SecretStr], BeforeValidator(_headers)]
TlsModeValue = Annotated[TlsMode, _choice(TlsMode)]
LogLevelValue = Annotated[LogLevel, _choice(LogLevel, {"warning": LogLevel.WARN})]
AcknowledgeModeValue = Annotated[AcknowledgeMode, _choice(AcknowledgeMode)]
IndexModeValue = Annotated[IndexMode, _choice(IndexMode)]
MemtableTypeValue = Annotated[MemtableType, _choice(MemtableType)]
SelectorValue = Annotated[Selector, _choice(Selector)]
SlowQueryRecordValue = Annotated[SlowQueryRecord, _choice(SlowQueryRecord)]
