"""Functions on IP addresses and networks; an address that cannot be read is an error that names it."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache

import pyarrow as pa

from tsdb.query.functions._define import NUMBER, STRING, FunctionError, function, map_distinct, map_rows

_BINARY = pa.binary()


def _v4(name: str, text: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(_v4_number(name, text))


def _v4_number(name: str, text: str) -> int:
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, text.strip()))
    except (OSError, ValueError):
        raise FunctionError(f"{name}() got '{text}', which is not an IPv4 address") from None


def _v6(name: str, text: str) -> ipaddress.IPv6Address:
    """An IPv4 address is taken for the IPv6 address it is mapped to."""
    return ipaddress.IPv6Address(_v6_number(name, text))


def _v6_number(name: str, text: str) -> int:
    text = text.strip()
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET6, text if ":" in text else f"::ffff:{text}"))
    except (OSError, ValueError):
        raise FunctionError(f"{name}() got '{text}', which is not an IPv6 address") from None


@function("ipv4_string_to_num", [STRING], pa.uint32())
def ipv4_string_to_num(text: pa.Array) -> pa.Array:
    return map_distinct(text, pa.uint32(), lambda each: _v4_number("ipv4_string_to_num", each))


@function("ipv4_num_to_string", [NUMBER], STRING)
def ipv4_num_to_string(number: pa.Array) -> pa.Array:
    def show(number: float) -> str:
        if not (0 <= number < 1 << 32 and number.is_integer()):
            raise FunctionError(f"ipv4_num_to_string() got {number:g}, an IPv4 address is a number of 32 bits")
        return str(ipaddress.IPv4Address(int(number)))

    return map_distinct(number, STRING, show)


@function("ipv6_string_to_num", [STRING], _BINARY)
def ipv6_string_to_num(text: pa.Array) -> pa.Array:
    return map_distinct(text, _BINARY, lambda each: _v6("ipv6_string_to_num", each).packed)


@function("ipv6_num_to_string", [STRING], STRING)
def ipv6_num_to_string(digits: pa.Array) -> pa.Array:
    def show(digits: str) -> str:
        try:
            packed = bytes.fromhex(digits)
        except ValueError:
            packed = b""
        if len(packed) != 16:
            raise FunctionError(f"ipv6_num_to_string() got '{digits}', expected 32 hexadecimal digits")
        address = ipaddress.IPv6Address(packed)
        return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)

    return map_distinct(digits, STRING, show)


@function("ipv4_to_cidr", [STRING], STRING)
def ipv4_to_cidr(text: pa.Array) -> pa.Array:
    """Octets left out are zero; the mask ends where the zero octets at the end begin."""

    def show(text: str) -> str:
        address = _v4("ipv4_to_cidr", _padded(text))
        zeros = len(address.packed) - len(address.packed.rstrip(b"\0"))
        return f"{address}/{32 - 8 * zeros}"

    return map_distinct(text, STRING, show)


def _padded(text: str) -> str:
    octets = text.strip().rstrip(".").split(".")
    return ".".join(octets + ["0"] * (4 - len(octets)))


@function("ipv4_to_cidr__2", [STRING, NUMBER], STRING)
def ipv4_to_cidr_bits(text: pa.Array, bits: pa.Array) -> pa.Array:
    def show(text: str, bits: float) -> str:
        address = _v4("ipv4_to_cidr", _padded(text))
        return str(ipaddress.IPv4Network((int(address), _bits("ipv4_to_cidr", bits, 32)), strict=False))

    return map_rows(STRING, show, text, bits)


@function("ipv6_to_cidr", [STRING], STRING)
def ipv6_to_cidr(text: pa.Array) -> pa.Array:
    """The mask ends where the zero groups at the end begin."""

    def show(text: str) -> str:
        address = _v6("ipv6_to_cidr", _closed(text))
        groups = address.exploded.split(":")
        while groups and groups[-1] == "0000":
            groups.pop()
        return f"{address}/{16 * len(groups)}"

    return map_distinct(text, STRING, show)


def _closed(text: str) -> str:
    """An address that was cut off (`2001:db8`) with its missing groups as zeros."""
    text = text.strip()
    is_cut = ":" in text and "::" not in text and text.count(":") < 7
    return f"{text.rstrip(':')}::" if is_cut else text


@function("ipv6_to_cidr__2", [STRING, NUMBER], STRING)
def ipv6_to_cidr_bits(text: pa.Array, bits: pa.Array) -> pa.Array:
    def show(text: str, bits: float) -> str:
        address = _v6("ipv6_to_cidr", _closed(text))
        return str(ipaddress.IPv6Network((int(address), _bits("ipv6_to_cidr", bits, 128)), strict=False))

    return map_rows(STRING, show, text, bits)


def _bits(name: str, bits: float, most: int) -> int:
    if not (0 <= bits <= most and bits.is_integer()):
        raise FunctionError(f"{name}() got a mask of {bits:g} bits, expected 0 to {most}")
    return int(bits)


@function("ipv4_in_range", [STRING, STRING], pa.bool_())
def ipv4_in_range(text: pa.Array, cidr: pa.Array) -> pa.Array:
    def is_within(text: str, cidr: str) -> bool:
        first, last = _bounds("ipv4_in_range", cidr, 4)
        return first <= _v4_number("ipv4_in_range", text) <= last

    return map_rows(pa.bool_(), is_within, text, cidr)


@function("ipv6_in_range", [STRING, STRING], pa.bool_())
def ipv6_in_range(text: pa.Array, cidr: pa.Array) -> pa.Array:
    def is_within(text: str, cidr: str) -> bool:
        first, last = _bounds("ipv6_in_range", cidr, 6)
        return first <= _v6_number("ipv6_in_range", text) <= last

    return map_rows(pa.bool_(), is_within, text, cidr)


@lru_cache(maxsize=1024)
def _bounds(name: str, cidr: str, version: int) -> tuple[int, int]:
    """First and last address of a network, as numbers."""
    try:
        network = ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        network = None
    if network is None or network.version != version or "/" not in cidr:
        raise FunctionError(f"{name}() got '{cidr}', which is not an IPv{version} network such as address/bits")
    return int(network.network_address), int(network.broadcast_address)


FUNCTIONS = [
    ipv4_string_to_num,
    ipv4_num_to_string,
    ipv6_string_to_num,
    ipv6_num_to_string,
    ipv4_to_cidr,
    ipv4_to_cidr_bits,
    ipv6_to_cidr,
    ipv6_to_cidr_bits,
    ipv4_in_range,
    ipv6_in_range,
]
