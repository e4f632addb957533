"""``rmq-ordered leases``: who owns which queue, and who did before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rmq_ordered.cli.options import DEFAULT_NAME_SERVER, AsJson, NameServer, open_client
from rmq_ordered.cli.output import print_json, print_table, utc
from rmq_ordered.model import LeaseRecord, OwnershipEvent


def leases(
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only this consumer group.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only queues of this topic.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show the changes of owner, oldest first.")
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show who owns which queue. The embedded broker only: RocketMQ cannot be asked."""
    with open_client(name_server) as client:
        table, events = client.broker.leases(group, topic)
    table = tuple(sorted(table, key=lambda row: (row.group, row.queue)))
    if as_json:
        answer: dict[str, Any] = {"leases": [_lease_json(row) for row in table]}
        if history:
            answer["history"] = [_event_json(event) for event in events]
        print_json(answer)
    elif history:
        _print_history(events)
    else:
        _print_leases(table)


def _lease_json(row: LeaseRecord) -> dict[str, Any]:
    return {
        "group": row.group,
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "clientId": row.client_id,
        "epoch": row.epoch,
        "live": row.is_live,
        "grantedAt": utc(row.granted_at_ms),
        "renewedAt": utc(row.renewed_at_ms),
        "expiresInMs": row.expires_in_ms,
    }


def _event_json(event: OwnershipEvent) -> dict[str, Any]:
    return {
        "at": utc(event.at_ms),
        "group": event.group,
        "topic": event.queue.topic,
        "broker": event.queue.broker_name,
        "queue": event.queue.queue_id,
        "previousOwner": event.previous_owner,
        "owner": event.owner,
        "epoch": event.epoch,
        "reason": event.reason,
    }


def _print_leases(table: Sequence[LeaseRecord]) -> None:
    columns = ("group", "topic", "broker", "queue", "owner", "epoch", "granted", "ends")
    rows = [
        (
            row.group,
            row.queue.topic,
            row.queue.broker_name,
            row.queue.queue_id,
            row.client_id,
            row.epoch,
            utc(row.granted_at_ms),
            f"in {row.expires_in_ms / 1000:.0f} s" if row.is_live else "ended",
        )
        for row in table
    ]
    print_table(columns, rows)


def _print_history(events: Sequence[OwnershipEvent]) -> None:
    columns = ("at", "group", "topic", "broker", "queue", "from", "to", "epoch", "reason")
    rows = [
        (
            utc(event.at_ms),
            event.group,
            event.queue.topic,
            event.queue.broker_name,
            event.queue.queue_id,
            event.previous_owner,
            event.owner,
            event.epoch,
            event.reason,
        )
        for event in events
    ]
    print_table(columns, rows)
