"""What several commands have in common: options, and the client they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rmq_ordered.options import parse_name_servers, parse_topic

if TYPE_CHECKING:
    from rmq_ordered.client import Client

DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"


def _check_name_server(text: str) -> str:
    try:
        parse_name_servers(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected host:port, several separated by ';', found {text!r}"
        ) from None
    return text


def _check_topic(text: str) -> str:
    try:
        return parse_topic(text)
    except ValueError:
        raise typer.BadParameter(
            f"a topic name has 1 to 127 letters, digits, '_', '-', '%' or '|', found {text!r}"
        ) from None


NameServer = Annotated[
    str,
    typer.Option(
        "--name-server",
        metavar="HOST:PORT[;...]",
        envvar="NAMESRV_ADDR",
        callback=_check_name_server,
        help="Name servers of the cluster, or the address of the embedded broker.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Machine-readable: JSON on standard output, nothing else.")
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", callback=_check_topic, help="The topic.")]


def open_client(name_server: str) -> Client:
    """A client of the cluster; connects when it is first used."""
    # Not above: pyarrow alone takes longer to load than most commands to run.
    from rmq_ordered.client import Client

    return Client(name_server)
