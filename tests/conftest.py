"""What all tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.store.services import S3Server, running_s3

# A machine that is busy with other things must not make an example fail: how long tests may take is said elsewhere.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server that speaks S3, started for the first test that asks for it."""
    with running_s3() as server:
        yield server
