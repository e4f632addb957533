import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rmq_ordered.cli import topic
from rmq_ordered.cli.main import app
from rmq_ordered.errors import ConnectFailed
from rmq_ordered.version import __version__

# A port that no service has and no client may bind: connecting is refused at once.
NOBODY = "127.0.0.1:1"


def test_the_version_is_printed_alone() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"rmq-ordered {__version__}\n")


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "list"],
        ["topic", "describe", "orders"],
        ["topic", "create", "orders", "--queues", "4"],
        ["topic", "delete", "orders"],
        ["send", "orders"],
        ["tail", "orders"],
        ["leases"],
    ],
)
def test_an_unreachable_name_server_is_one_sentence_and_exit_code_1(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--name-server", NOBODY, "--json"], input=b"k\tv\n")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: cannot connect to {NOBODY}: Connection refused, for ")
    assert result.stderr.count("\n") == 1


def test_debug_shows_where_an_error_was_raised() -> None:
    result = CliRunner().invoke(app, ["--debug", "topic", "list", "--name-server", NOBODY])
    assert isinstance(result.exception, ConnectFailed)


def test_the_name_server_comes_from_the_environment() -> None:
    result = CliRunner(env={"NAMESRV_ADDR": "127.0.0.1:2"}).invoke(app, ["topic", "list"])
    assert "cannot connect to 127.0.0.1:2" in result.stderr


@pytest.mark.parametrize("environment", [{"NAMESRV_ADDR": ""}, {"NAMESRV_ADDR": None}])
def test_without_the_environment_the_default_is_this_machine(
    environment: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name_server: str) -> None:
        raise ConnectFailed(name_server, "refused")

    monkeypatch.setattr(topic, "open_client", refuse)
    result = CliRunner(env=environment).invoke(app, ["topic", "list"])
    assert "cannot connect to 127.0.0.1:9876: refused" in result.stderr


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["topic", "list", "--name-server", "nonsense"], "expected host:port"),
        (["topic", "create", "orders", "--queues", "0"], "--queues"),
        (["topic", "create", "orders", "--queues", "many"], "--queues"),
        (["topic", "create", "orders"], "give --queues N, or --global-order"),
        (["topic", "create", "o", "--queues", "2", "--global-order"], "means one single queue"),
        (["topic", "create", "what a name", "--queues", "2"], "a topic name has 1 to 127"),
        (["tail", "orders", "--max", "0"], "--max"),
        (["tail", "orders", "--from", "yesterday"], "--from"),
        (["broker", "--listen"], "--listen"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_explained_and_exit_code_2(command: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_importing_the_package_loads_neither_the_command_line_nor_arrow() -> None:
    heavy = "{'typer', 'rich', 'pyarrow', 'numpy', 'pyspark', 'subprocess', 'py4j'}"
    program = f"import rmq_ordered, sys; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_public_names_are_found_when_they_are_asked_for() -> None:
    import rmq_ordered

    assert all(getattr(rmq_ordered, name) is not None for name in rmq_ordered.__all__)
    assert set(dir(rmq_ordered)) == set(rmq_ordered.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rmq_ordered.Nonsense  # noqa: B018
