"""Services that check who asks: what they refuse is told in words that name what to change, and is not repeated."""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import boto3
import httpx
import pytest

from tests.server_process import spawn
from tests.store.azure import ACCOUNT, ACCOUNT_KEY, running_azurite
from tests.store.kinds import Service
from tests.store.services import BUCKET, S3Server, running_s3
from tsdb.store import StoreMisconfigured

pytestmark = [
    pytest.mark.skipif(os.environ.get("TSDB_OBJECTS") != "all", reason="needs Azurite: make objects runs it"),
    pytest.mark.timeout(300),
]
WRONG_KEY = base64.b64encode(b"the key of another account, really").decode()
_SAS_VERSION = "2020-12-06"


def sas_token(*, permissions: str = "rwdlac", hours: float = 1, key: str = ACCOUNT_KEY) -> str:
    """Sign what its owner may do with the blobs of the account."""
    until = (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    parts = {"sv": _SAS_VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": until, "spr": "https,http"}
    signed = [ACCOUNT, permissions, "b", "sco", "", until, "", parts["spr"], _SAS_VERSION, "", ""]
    digest = hmac.digest(base64.b64decode(key), "\n".join(signed).encode(), "sha256")
    parts["sig"] = base64.b64encode(digest).decode()
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in parts.items())


@pytest.fixture(scope="module")
def azurite() -> Iterator[str]:
    with running_azurite() as endpoint:
        yield endpoint


def azure(endpoint: str, **account: str) -> Service:
    keys = {"type": "Azblob", "container": BUCKET, "endpoint": endpoint, "account_name": ACCOUNT}
    return Service({**keys, **account})


def check_works(service: Service) -> None:
    store = service.store("root")
    store.put("a", b"content")
    assert store.get("a") == b"content"
    assert [meta.path for meta in store.list("")] == ["a"]
    store.delete("a")


def test_azure_accepts_the_key_and_what_it_signed(azurite: str) -> None:
    check_works(azure(azurite, account_key=ACCOUNT_KEY))
    check_works(azure(azurite, sas_token=sas_token()))


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ({"account_key": WRONG_KEY}, "AuthorizationFailure|AuthenticationFailed"),
        ({"sas_token": sas_token(key=WRONG_KEY)}, "AuthorizationFailure|AuthenticationFailed"),
        ({"sas_token": sas_token(hours=-1)}, "AuthorizationFailure|AuthenticationFailed"),
        ({"sas_token": sas_token(permissions="rl")}, "AuthorizationPermissionMismatch"),
    ],
    ids=["wrong key", "signed by another", "expired", "for readers"],
)
def test_azure_refuses_everything_else(azurite: str, account: dict[str, str], reason: str) -> None:
    store = azure(azurite, **account).store("root")
    with pytest.raises(StoreMisconfigured, match=rf"the credentials are refused \(({reason})\)"):
        store.put("a", b"content")


@pytest.mark.parametrize(
    "account", [{"account_key": WRONG_KEY}, {"sas_token": sas_token(hours=-1)}], ids=["key", "sas"]
)
def test_a_server_with_the_wrong_key_refuses_to_start_and_keeps_it_to_itself(
    azurite: str, account: dict[str, str], tmp_path: Path
) -> None:
    environment = azure(azurite, **account).environment("root", tmp_path / "wal")
    server = spawn("standalone", tmp_path, environment=environment)
    assert server.process.wait(timeout=240) == 1
    assert "storage default: cannot write to " in server.output
    assert "the credentials are refused" in server.output
    assert "check the keys in [storage]" in server.output
    assert "Traceback" not in server.output
    for secret in account.values():
        assert secret not in server.output
        assert secret.rpartition("sig=")[2] not in server.output


@pytest.fixture(scope="module")
def strict_s3() -> Iterator[tuple[S3Server, dict[str, str]]]:
    """S3 that checks signatures and permissions, and the keys of the one user that it knows."""
    with running_s3() as server:
        told = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        users = boto3.client("iam", endpoint_url=server.endpoint, **told)
        users.create_user(UserName="tests")
        made = users.create_access_key(UserName="tests")["AccessKey"]
        policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        users.put_user_policy(UserName="tests", PolicyName="all", PolicyDocument=policy)
        httpx.post(f"{server.endpoint}/moto-api/reset-auth", content="0").raise_for_status()
        keys = {"access_key_id": made["AccessKeyId"], "secret_access_key": made["SecretAccessKey"]}
        yield server, keys


def test_s3_accepts_the_keys_of_its_user(strict_s3: tuple[S3Server, dict[str, str]]) -> None:
    server, keys = strict_s3
    store = server.store(**keys)
    store.put("a", b"content")
    assert store.get("a") == b"content"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"access_key_id": "nobody"}, "InvalidAccessKeyId"),
        ({"secret_access_key": "guessed"}, "SignatureDoesNotMatch"),
    ],
)
def test_s3_refuses_wrong_keys(strict_s3: tuple[S3Server, dict[str, str]], wrong: dict[str, str], reason: str) -> None:
    server, keys = strict_s3
    store = server.store(**{**keys, **wrong})
    with pytest.raises(StoreMisconfigured, match=rf"the credentials are refused \({reason}\)") as refused:
        store.put("a", b"content")
    assert "check the keys in [storage]" in str(refused.value.hint)
