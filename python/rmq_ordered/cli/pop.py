"""``rmq-ordered pop``: what was popped and is not settled."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmq_ordered.cli.options import DEFAULT_NAME_SERVER, AsJson, NameServer, open_client
from rmq_ordered.cli.output import print_json, print_table, utc
from rmq_ordered.protocol.pops import PopState


def pop(
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only this consumer group.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only queues of this topic.")
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show what is popped and not acknowledged. The embedded broker only."""
    with open_client(name_server) as client:
        rows = [_row(address, state) for address, state in client.broker.pop_state(group, topic)]
    if as_json:
        print_json({"pops": rows})
        return
    columns = ("group", "topic", "queue", "next", "end", "inFlight", "toRevive", "oldest", "order")
    cells = [
        (
            row["group"],
            row["topic"],
            row["queue"],
            row["nextOffset"],
            row["maxOffset"],
            row["inFlight"],
            row["toRevive"],
            row["oldest"] or "-",
            "yes" if row["orderly"] else "no",
        )
        for row in rows
    ]
    print_table(columns, cells)


def _row(address: str, state: PopState) -> dict[str, Any]:
    return {
        "broker": address,
        "group": state.group,
        "topic": state.topic,
        "queue": state.queue_id,
        "nextOffset": state.next_offset,
        "maxOffset": state.max_offset,
        "inFlight": state.in_flight,
        "toRevive": state.to_revive,
        "oldest": None if state.oldest_pop_ms is None else utc(state.oldest_pop_ms),
        "orderly": state.is_orderly,
    }
