"""Reading bytes of stored files for Parquet, and saying precisely what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tsdb.engine.errors import FileCorrupted, StorageUnavailable
from tsdb.store import InvalidRange, ObjectNotFound


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what pyarrow and the store say of a damaged file into one error that names it."""
    try:
        yield
    except ObjectNotFound as error:
        raise FileCorrupted(file=path, reason="it is missing") from error
    except InvalidRange as error:
        raise FileCorrupted(file=path, reason=f"it is too short, {error}") from error
    except MemoryError:
        raise
    except OSError as error:
        # Errors of the disk have a number; those of Parquet's own checks come as OSError without one.
        if error.errno is not None:
            raise StorageUnavailable("a data file cannot be read", file=path, reason=str(error)) from error
        raise FileCorrupted(file=path, reason=str(error)) from error
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise FileCorrupted(file=path, reason=f"{type(error).__name__}: {error}") from error
