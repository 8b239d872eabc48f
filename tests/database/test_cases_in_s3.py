"""Case files answered by a database whose data files are in S3: some of them, and with TSDB_OBJECTS=all every one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.database.test_cases import CASES, check_cases
from tests.store.services import S3Server

SOME = ("alter_table", "append_mode", "compaction", "delete")
CHOSEN = [path for path in CASES if path.stem in SOME or os.environ.get("TSDB_OBJECTS") == "all"]


@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: path.stem)
def test_a_case_file_is_answered_the_same_from_a_bucket(path: Path, tmp_path: Path, s3_server: S3Server) -> None:
    check_cases(path, tmp_path, store=s3_server.store())
