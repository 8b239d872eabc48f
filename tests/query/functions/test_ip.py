"""IP addresses and networks."""

from __future__ import annotations

import ipaddress

import pyarrow as pa
import pytest

from tests.query.functions.asking import check, column, error

CASES = [
    ("ipv4_string_to_num('10.0.0.1')", 167772161),
    ("ipv4_string_to_num('255.255.255.255')", 4294967295),
    ("inet_aton('0.0.0.1')", 1),
    ("ipv4_string_to_num(NULL)", None),
    ("ipv4_num_to_string(167772161)", "10.0.0.1"),
    ("inet_ntoa(0)", "0.0.0.0"),
    ("ipv4_num_to_string(ipv4_string_to_num('1.2.3.4'))", "1.2.3.4"),
    ("ipv4_num_to_string(NULL)", None),
    ("ipv6_string_to_num('::1')", bytes(15) + b"\x01"),
    ("ipv6_string_to_num('1.2.3.4')", ipaddress.IPv6Address("::ffff:1.2.3.4").packed),
    ("ipv6_string_to_num(NULL)", None),
    ("ipv6_num_to_string('20010db8000000000000000000000001')", "2001:db8::1"),
    ("ipv6_num_to_string('00000000000000000000ffffc0a80001')", "::ffff:192.168.0.1"),
    ("ipv6_num_to_string(encode(ipv6_string_to_num('fe80::1'), 'hex'))", "fe80::1"),
    ("ipv4_to_cidr('192.168.1.0')", "192.168.1.0/24"),
    ("ipv4_to_cidr('192.168')", "192.168.0.0/16"),
    ("ipv4_to_cidr('10.1.2.3')", "10.1.2.3/32"),
    ("ipv4_to_cidr('192.168.1.77', 24)", "192.168.1.0/24"),
    ("ipv4_to_cidr('10', 8)", "10.0.0.0/8"),
    ("ipv4_to_cidr('10', NULL)", None),
    ("ipv6_to_cidr('2001:db8::')", "2001:db8::/32"),
    ("ipv6_to_cidr('2001:db8')", "2001:db8::/32"),
    ("ipv6_to_cidr('2001:db8::1')", "2001:db8::1/128"),
    ("ipv6_to_cidr('2001:db8::1', 64)", "2001:db8::/64"),
    ("ipv4_in_range('10.1.2.3', '10.0.0.0/8')", True),
    ("ipv4_in_range('11.1.2.3', '10.0.0.0/8')", False),
    ("ipv4_in_range('11.1.2.3', '0.0.0.0/0')", True),
    ("ipv4_in_range(NULL, '10.0.0.0/8')", None),
    ("ipv6_in_range('2001:db8::5', '2001:db8::/32')", True),
    ("ipv6_in_range('2001:db9::5', '2001:db8::/32')", False),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_ip_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("ipv4_string_to_num('1.2.3')", "'1.2.3'"),
        ("ipv4_string_to_num('1.2.3.256')", "'1.2.3.256'"),
        ("ipv4_num_to_string(4294967296)", "4.29497e+09"),
        ("ipv4_num_to_string(-1)", "-1"),
        ("ipv6_string_to_num('x::1')", "'x::1'"),
        ("ipv6_num_to_string('12')", "'12'"),
        ("ipv6_num_to_string('zz')", "'zz'"),
        ("ipv4_to_cidr('1.2.3.4.5')", "'1.2.3.4.5'"),
        ("ipv4_to_cidr('10', 33)", "33"),
        ("ipv6_to_cidr('::', 129)", "129"),
        ("ipv4_in_range('1.2.3.4', '10.0.0.0')", "'10.0.0.0'"),
        ("ipv4_in_range('1.2.3.4', '::/0')", "'::/0'"),
        ("ipv6_in_range('::1', '::/200')", "'::/200'"),
    ],
)
def test_what_is_no_address_is_refused_by_name(expression: str, named: str) -> None:
    assert named in error(expression)


def test_networks_may_differ_from_row_to_row() -> None:
    table = pa.table({"ip": ["1.2.3.4", "5.6.7.8", None], "net": ["1.0.0.0/8", "1.0.0.0/8", "1.0.0.0/8"]})
    assert column("ipv4_in_range(ip, net)", table) == [True, False, None]
