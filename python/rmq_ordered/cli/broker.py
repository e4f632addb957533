"""``rmq-ordered broker``: the broker in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def broker(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address to serve; port 0 picks a free one. Default: that of --config, else "
            "127.0.0.1:9876.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Where messages are kept. Default: storePathRootDir of --config if that is given, "
            "else rmq-ordered in $XDG_DATA_HOME or ~/.local/share.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings, as java properties.", show_default=False
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="First give up what is damaged in the commit log: the bytes are kept in the "
            "folder `damaged` beside it, and readers are told that those messages are lost.",
        ),
    ] = False,
) -> None:
    """Run the embedded broker in the foreground, name server included, on one port.

    When it serves it prints one line, `ready HOST:PORT`; its log goes to standard error. SIGTERM
    and Ctrl-C flush, close and end it with exit code 0. Its heap is 512 MB; _JAVA_OPTIONS=-Xmx2g
    changes that.
    """
    from rmq_ordered.embedded.launcher import broker_command

    arguments = [] if listen is None else ["--listen", listen]
    if data is None and config is None:
        data = default_data()
    if data is not None:
        arguments += ["--data", str(data.expanduser().absolute())]
    if config is not None:
        arguments += ["--config", str(config)]
    if repair:
        arguments.append("--repair")
    command = broker_command(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    # This process becomes the broker: signals and exit codes need no relay that could fail.
    os.execv(command[0], command)  # noqa: S606 - our own command, no shell


def default_data() -> Path:
    """The user's folder for data of this program, as the XDG rules say."""
    configured = os.environ.get("XDG_DATA_HOME", "")
    # The rules say that a relative path is to be ignored.
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".local" / "share"
    return base / "rmq-ordered"
