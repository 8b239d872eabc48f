import io
import logging
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tsdb.clock import ManualClock
from tsdb.errors import StartError
from tsdb.telemetry import LogSetup, get_logger, setup_logging
from tsdb.telemetry._log_files import KEPT_FILES_MAX

NOON_NS = 1_714_564_800_123_456_789  # 2024-05-01T12:00:00.123456789Z
APP = "tsdb-standalone"

Start = Callable[..., LogSetup]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON_NS)


@pytest.fixture
def start(tmp_path: Path, clock: ManualClock) -> Iterator[Start]:
    """Start a log in the temporary directory; it is closed after the test if the test did not."""
    setups = []

    def start_log(level: str = "info", *, append_stdout: bool = False, secrets: tuple[str, ...] = ()) -> LogSetup:
        setup = setup_logging(
            app=APP,
            directory=tmp_path,
            level=level,
            append_stdout=append_stdout,
            secrets=secrets,
            clock=clock,
        )
        setups.append(setup)
        return setup

    yield start_log
    for setup in setups:
        setup.close()


def read(directory: Path, hour: str = "2024-05-01-12", *, app: str = APP) -> str:
    return (directory / f"{app}.{hour}").read_text()


def test_a_line_has_time_level_target_message_and_fields(tmp_path: Path, start: Start) -> None:
    setup = start()
    get_logger("tsdb.http").info("ready", port=4000, where="with space", ok=True, none="", quote='a"b')
    setup.close()
    assert read(tmp_path) == (
        "2024-05-01T12:00:00.123456Z  INFO tsdb.http: ready"
        ' port=4000 where="with space" ok=true none="" quote="a\\"b"\n'
    )


def test_records_of_libraries_are_written_in_the_same_form(tmp_path: Path, start: Start) -> None:
    setup = start()
    logging.getLogger("library").warning("%d of %s", 3, "four")
    setup.close()
    assert read(tmp_path) == "2024-05-01T12:00:00.123456Z  WARN library: 3 of four\n"


def test_a_percent_sign_in_a_message_is_just_a_percent_sign(tmp_path: Path, start: Start) -> None:
    setup = start()
    get_logger("t").info("100 %s")
    setup.close()
    assert read(tmp_path).endswith("t: 100 %s\n")


def test_errors_are_in_the_error_file_too_and_nothing_else_is(tmp_path: Path, start: Start) -> None:
    setup = start("debug")
    log = get_logger("t")
    log.debug("one")
    log.info("two")
    log.warning("three")
    log.error("four")
    setup.close()
    assert [line.split()[1] for line in read(tmp_path).splitlines()] == ["DEBUG", "INFO", "WARN", "ERROR"]
    assert read(tmp_path, app=f"{APP}-err") == "2024-05-01T12:00:00.123456Z ERROR t: four\n"


def test_a_traceback_follows_on_indented_lines(tmp_path: Path, start: Start) -> None:
    setup = start()
    try:
        raise KeyError("lost")
    except KeyError:
        get_logger("t").exception("failed", region=7)
    setup.close()
    first, *rest = read(tmp_path).splitlines()
    assert first.endswith("ERROR t: failed region=7")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    KeyError: 'lost'"
    assert all(line.startswith("    ") for line in rest)


def test_a_message_cannot_forge_a_line_or_reach_the_terminal(tmp_path: Path, start: Start) -> None:
    setup = start()
    get_logger("t").info("a\n2024-05-01T12:00:00.000000Z  INFO t: forged\r\x1b[31m")
    setup.close()
    lines = read(tmp_path).splitlines()
    assert lines[1] == "    2024-05-01T12:00:00.000000Z  INFO t: forged\\x0d\\x1b[31m"


def test_text_that_utf8_cannot_carry_is_escaped(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the test runner keeps the record too and cannot send it from a worker.
    monkeypatch.setattr("_pytest.logging.LogCaptureHandler.emit", lambda handler, record: None)
    setup = start()
    get_logger("t").info("a\udc80b é")
    setup.close()
    assert read(tmp_path).endswith("t: a\\udc80b é\n")


def test_a_new_hour_begins_a_new_file(tmp_path: Path, start: Start, clock: ManualClock) -> None:
    setup = start()
    log = get_logger("t")
    log.error("first")
    clock.advance(seconds=3600)
    log.info("second")
    setup.close()
    assert "first" in read(tmp_path, "2024-05-01-12")
    assert "second" in read(tmp_path, "2024-05-01-13")
    assert "first" in read(tmp_path, "2024-05-01-12", app=f"{APP}-err")


def test_a_record_that_comes_late_stays_in_the_newer_file(tmp_path: Path, start: Start, clock: ManualClock) -> None:
    setup = start()
    log = get_logger("t")
    clock.advance(seconds=3600)
    log.info("new")
    clock.set_wall(NOON_NS)
    log.info("late")
    setup.close()
    assert "late" in read(tmp_path, "2024-05-01-13")


def test_the_oldest_files_of_each_kind_are_removed_when_an_hour_begins(
    tmp_path: Path, start: Start, clock: ManualClock
) -> None:
    for number in range(KEPT_FILES_MAX + 3):
        day, hour = divmod(number, 24)
        (tmp_path / f"{APP}.2023-{day // 28 + 1:02d}-{day % 28 + 1:02d}-{hour:02d}").touch()
    (tmp_path / f"{APP}-err.2022-01-01-00").touch()
    (tmp_path / "unrelated.2022-01-01-00").touch()
    start().close()
    kept = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(f"{APP}."))
    assert len(kept) == KEPT_FILES_MAX
    assert kept[0] == f"{APP}.2023-01-01-04"
    assert kept[-1] == f"{APP}.2024-05-01-12"
    assert (tmp_path / f"{APP}-err.2022-01-01-00").exists()
    assert (tmp_path / "unrelated.2022-01-01-00").exists()


@pytest.mark.parametrize("level", ["info", "INFO", "Warn", "debug", "error", "info, tsdb.http=debug"])
def test_levels_are_read_in_any_case(level: str, start: Start) -> None:
    assert start(level).level == level.lower().replace(" ", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("loud", "'loud' is not a log level, expected one of debug, info, warn, error"),
        ("", "'' is not a log level, expected one of debug, info, warn, error"),
        ("info,tsdb", "'tsdb' in the log filter 'info,tsdb' is not of the form target=level"),
        ("info,=debug", "'=debug' in the log filter 'info,=debug' is not of the form target=level"),
        ("info,tsdb=loud", "'loud' is not a log level, expected one of debug, info, warn, error"),
    ],
)
def test_a_bad_filter_is_refused_and_changes_nothing(text: str, problem: str, start: Start) -> None:
    setup = start("warn")
    with pytest.raises(ValueError, match="^" + re.escape(problem) + "$"):
        setup.set_level(text)
    assert setup.level == "warn"


def test_the_level_can_change_while_running_for_all_or_for_one_target(tmp_path: Path, start: Start) -> None:
    setup = start("warn")
    http, other = get_logger("tsdb.http"), get_logger("tsdb.other")
    http.info("hidden")
    setup.set_level("info,tsdb.http=debug")
    assert setup.level == "info,tsdb.http=debug"
    http.debug("seen one")
    other.debug("hidden")
    other.info("seen two")
    setup.set_level("error")
    http.warning("hidden")
    setup.close()
    assert "hidden" not in read(tmp_path)
    assert read(tmp_path).count("seen") == 2


def test_closing_leaves_the_logging_of_the_process_as_it_was(start: Start) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    setup = start("debug,tsdb.http=error")
    setup.close()
    setup.close()
    assert (root.level, root.handlers) == before
    assert logging.getLogger("tsdb.http").level == logging.NOTSET


SECRET = "p@ss wörd/1"


@pytest.mark.parametrize(
    "written",
    [
        "p@ss wörd/1",
        "p%40ss%20w%C3%B6rd%2F1",
        "p%40ss+w%C3%B6rd%2F1",
        "cEBzcyB3w7ZyZC8x",  # base64 of the secret
        "dXNlcjpwQHNzIHfDtnJkLzE=",  # base64 of user:secret
        "dTpwQHNzIHfDtnJkLzE=",  # … and at the other offsets
        "dXM6cEBzcyB3w7ZyZC8x",
    ],
)
def test_a_secret_is_never_written_in_any_form(written: str, tmp_path: Path, start: Start) -> None:
    setup = start(secrets=(SECRET, "abc"))
    get_logger("t").info(f"url http://u:{written}@host and abc", key=written)
    try:
        raise RuntimeError(written)
    except RuntimeError:
        get_logger("t").exception("failed")
    setup.close()
    text = read(tmp_path)
    assert "******" in text
    assert written not in text
    assert "and abc" in text, "a secret of three letters would make the log unreadable"
    assert "******" in read(tmp_path, app=f"{APP}-err")
    assert written not in read(tmp_path, app=f"{APP}-err")


@pytest.mark.parametrize(
    "message",
    [
        "password=table",
        "password = 'table'",
        "access_key_id: table, region: eu",
        "postgres://user:table@host/db",
        "http://host/?token=table&x=1",
        '{"secret_access_key": "table"}',
        r"{\"secret\":\"table\"}",
        "<AWSAccessKeyId>table</AWSAccessKeyId>",
        "AWS4-HMAC-SHA256 Credential=table/20240501/us-east-1/s3/aws4_request",
        "Authorization: Bearer table",
        "Authorization: Basic dXNlcjp0YWJsZQ==",  # base64 of user:table
        "tsdb sql --password table",
        "static_user_provider:cmd:ann=table,bob=other",
        "the password 'table': denied",
        "headers=[(x-key,table)]",
        "the key is: table.",
    ],
)
def test_a_secret_that_is_an_ordinary_word_is_hidden_where_values_are(
    message: str, tmp_path: Path, start: Start
) -> None:
    setup = start(secrets=("table",))
    get_logger("t").info(message, key="table")
    try:
        raise RuntimeError(message)
    except RuntimeError:
        get_logger("t").exception("failed")
    setup.close()
    text = read(tmp_path)
    assert text.count("******") >= 3
    assert "table" not in text
    assert "dXNlcjp0YWJsZQ" not in text


def test_a_secret_that_is_an_ordinary_word_leaves_sentences_alone(tmp_path: Path, start: Start) -> None:
    setup = start(secrets=("table", "ready", "password"))
    get_logger("t").info("ready")
    get_logger("t").info("the table tables/table is not ready, or the password is wrong", path="/data/table/1")
    setup.close()
    text = read(tmp_path)
    assert "******" not in text
    assert "t: ready\n" in text


def test_a_long_secret_is_hidden_anywhere(tmp_path: Path, start: Start) -> None:
    setup = start(secrets=("k3y-of-1", "onelongwordofletters"))
    get_logger("t").info("it is k3y-of-1 and xk3y-of-1x and onelongwordofletters")
    setup.close()
    assert "it is ****** and x******x and ******" in read(tmp_path)


def test_a_secret_of_several_lines_is_hidden(tmp_path: Path, start: Start) -> None:
    setup = start(secrets=("BEGIN\nkey\nEND",))
    get_logger("t").info("it is BEGIN\nkey\nEND", field="BEGIN\nkey\nEND")
    setup.close()
    assert read(tmp_path).endswith('t: it is ****** field="******"\n')


def test_when_the_queue_is_full_records_are_dropped_counted_and_told(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsdb.telemetry._log_writer.LogWriter.start", lambda writer: None)
    setup = start()
    log = get_logger("t")
    for number in range(10_003):
        log.info("record", number=number)
    monkeypatch.undo()
    setup._writer.start()
    setup.close()
    lines = read(tmp_path).splitlines()
    assert lines[0].endswith("record number=0")
    assert lines[9_999].endswith("record number=9999")
    gap = "WARN tsdb.telemetry: log records were dropped because the queue was full count=3"
    assert [line for line in lines if "dropped" in line] == [lines[-1]]
    assert lines[-1].endswith(gap)


def test_the_gap_is_told_where_it_is_when_there_is_room_again(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsdb.telemetry._log_writer.LogWriter.start", lambda writer: None)
    setup = start()
    log = get_logger("t")
    for _ in range(10_001):
        log.info("early")
    for _ in range(10):
        setup._handler.queue.get()
    log.info("late")
    monkeypatch.undo()
    setup._writer.start()
    setup.close()
    before, gap, late = read(tmp_path).splitlines()[-3:]
    assert before.endswith("early")
    assert gap.endswith("count=1")
    assert late.endswith("late")


def test_nothing_is_lost_of_thousands_of_records_from_several_threads(tmp_path: Path, start: Start) -> None:
    from concurrent.futures import ThreadPoolExecutor

    setup = start()
    with ThreadPoolExecutor(4) as pool:
        for worker in range(4):
            pool.submit(lambda name: [get_logger(name).info("x") for _ in range(2_000)], f"w{worker}")
    setup.close()
    assert len(read(tmp_path).splitlines()) == 8_000


def test_stdout_gets_the_lines_without_colour_when_it_is_no_terminal(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = start(append_stdout=True)
    get_logger("t").info("hello")
    setup.close()
    assert capsys.readouterr().out == "2024-05-01T12:00:00.123456Z  INFO t: hello\n"


@pytest.mark.parametrize(("no_color", "shown"), [("", "\x1b[32m INFO\x1b[0m"), ("1", " INFO")])
def test_the_level_is_coloured_on_a_terminal_unless_the_user_says_no(
    no_color: str, shown: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    setup = start(append_stdout=True)
    get_logger("t").info("hello")
    setup.close()
    assert terminal.getvalue() == f"2024-05-01T12:00:00.123456Z {shown} t: hello\n"


def test_a_closed_stdout_does_not_stop_the_files(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", closed)
    setup = start(append_stdout=True)
    closed.close()
    get_logger("t").info("hello")
    setup.close()
    assert "hello" in read(tmp_path)


def test_python_warnings_are_in_the_log(tmp_path: Path, start: Start) -> None:
    setup = start()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", UserWarning, stacklevel=1)
    setup.close()
    assert "WARN py.warnings:" in read(tmp_path)
    assert "UserWarning: old thing" in read(tmp_path)


def test_an_object_that_cannot_be_written_harms_nobody(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    setup = start()
    get_logger("t").info("before", value=Broken())
    get_logger("t").info("after")
    setup.close()
    assert read(tmp_path).endswith("t: after\n")


def test_a_full_disk_is_told_once_and_does_not_stop_the_log(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    setup = start()
    with monkeypatch.context() as patch:
        patch.setattr("tsdb.telemetry._log_files.HourlyFile.append", fail)
        for _ in range(5):
            get_logger("t").error("lost")
            time.sleep(0.02)  # so that the records do not come in one piece
        setup._handler.queue.put(None)
        setup._writer._thread.join()
    assert capsys.readouterr().err == "tsdb: cannot write the log: [Errno 28] No space left on device\n"


def test_a_directory_that_cannot_be_used_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / "file" / "logs"
    with pytest.raises(StartError) as caught:
        setup_logging(app=APP, directory=directory, level="info", append_stdout=False)
    assert str(caught.value) == (
        f"logging.dir: cannot write to {directory}: Not a directory; choose another directory with --log-dir"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_named_with_its_key(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StartError, match=r"logging\.dir: .*Permission denied"):
        setup_logging(app=APP, directory=tmp_path, level="info", append_stdout=False)


def test_a_process_that_forgets_to_close_its_log_still_gets_its_last_lines(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tsdb.telemetry import setup_logging, get_logger\n"
        f"setup_logging(app='tsdb', directory=Path({str(tmp_path)!r}), level='info', append_stdout=False)\n"
        "get_logger('t').info('last words'); sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=20).returncode == 3
    texts = [path.read_text() for path in tmp_path.glob("tsdb.*")]
    assert any("t: last words" in text for text in texts)


def test_a_message_below_the_level_makes_no_record(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start("info")
    logger = logging.getLogger("quiet")
    monkeypatch.setattr(logger, "makeRecord", lambda *_, **__: pytest.fail("a record was made"))
    get_logger("quiet").debug("nothing", key="value")
