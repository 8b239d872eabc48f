"""What all tests share."""

import pytest
from hypothesis import settings

from tests import storage
from tests.standalone_only import reason_to_skip
from tests.store.services import S3Server

# A machine that is busy with other things must not make an example fail: how long tests may take is said elsewhere.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

if storage.IN_S3:
    storage.install()
elif storage.IN_CLUSTER:
    from tests import through_frontend

    through_frontend.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is different through a frontend."""
    for item in items if storage.IN_CLUSTER else ():
        reason = reason_to_skip(item.nodeid, is_partitioned=storage.IS_PARTITIONED)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def s3_server() -> S3Server:
    """A server that speaks S3, started for the first test that asks for it."""
    return storage.shared_s3()
