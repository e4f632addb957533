"""A failure is reported with what the servers wrote during its test."""

from pathlib import Path

from tests.support.logs import TAIL_LINES, ServerLogs


def test_only_what_was_written_since_the_test_began_is_shown(tmp_path: Path) -> None:
    logs = ServerLogs()
    logs.watch()
    log = tmp_path / "broker.log"
    with log.open("ab") as file:
        file.write(b"of the test before\n")
    logs.begin()
    assert logs.written() == []
    with log.open("ab") as file:
        file.write(b"of this one\n")
    assert logs.written() == [(log, "of this one")]


def test_a_log_that_begins_in_the_test_is_shown_from_its_beginning(tmp_path: Path) -> None:
    logs = ServerLogs()
    logs.watch()
    logs.begin()
    with (tmp_path / "driver.log").open("wb") as file:
        file.write(b"hello\n")
    (tmp_path / "notes.txt").write_text("no log")
    assert [(path.name, text) for path, text in logs.written()] == [("driver.log", "hello")]


def test_of_a_long_log_the_end_is_shown_and_one_that_is_gone_is_left_out(tmp_path: Path) -> None:
    logs = ServerLogs()
    logs.watch()
    long, gone = tmp_path / "long.log", tmp_path / "gone.log"
    with long.open("w") as file:
        file.writelines(f"{number}\n" for number in range(10_000))
    with gone.open("w") as file:
        file.write("x")
    gone.unlink()
    ((_, text),) = logs.written()
    lines = text.splitlines()
    assert (len(lines), lines[-1]) == (TAIL_LINES, "9999")
