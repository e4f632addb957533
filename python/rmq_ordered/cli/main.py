"""The ``rmq-ordered`` command: its commands, its version, and what becomes of errors."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmq_ordered.cli import topic
from rmq_ordered.cli.broker import broker
from rmq_ordered.cli.leases import leases
from rmq_ordered.cli.output import PrintableFormatter, fail, print_line
from rmq_ordered.cli.pop import pop
from rmq_ordered.cli.send import send
from rmq_ordered.cli.tail import tail
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.version import __version__


class _Commands(TyperGroup):
    """Turns our errors into one sentence and exit code 1; with --debug they keep their trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RmqOrderedError as error:
            if ctx.params.get("debug"):
                raise
            fail(str(error))


app = typer.Typer(
    cls=_Commands,
    name="rmq-ordered",
    help="Ordered topics of Apache RocketMQ and of the embedded broker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(broker)
app.add_typer(topic.app, name="topic")
app.command()(send)
app.command()(tail)
app.command()(leases)
app.command()(pop)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print_line(f"rmq-ordered {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", help="Log requests, and show where an error was raised.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Ordered topics of Apache RocketMQ and of the embedded broker."""
    if debug:
        handler = logging.StreamHandler()
        handler.setFormatter(PrintableFormatter("%(asctime)s %(name)s %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def run() -> None:
    """Entry point."""
    app(prog_name="rmq-ordered")


if __name__ == "__main__":
    run()
