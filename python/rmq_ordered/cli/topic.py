"""``rmq-ordered topic``: create, list, describe and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rmq_ordered.cli.options import DEFAULT_NAME_SERVER, AsJson, NameServer, Topic, open_client
from rmq_ordered.cli.output import fail, print_json, print_line, print_table, utc
from rmq_ordered.errors import TopicNotFound

if TYPE_CHECKING:
    from rmq_ordered.client import Client

app = typer.Typer(help="Create, list, describe and delete topics.", no_args_is_help=True)

# RocketMQ's brokers announce a new topic to the name servers a moment after creating it.
_ROUTE_TIMEOUT_MS: Final = 10_000
_ROUTE_POLL_MS: Final = 50

# RocketMQ's TopicValidator, and the two topics that each of its brokers keeps for itself.
_SYSTEM_TOPICS: Final = frozenset(
    {
        "BenchmarkTest",
        "DefaultCluster",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TBW102",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", "%RETRY%", "%DLQ%")


@app.command()
def create(
    topic: Topic,
    queues: Annotated[
        int | None,
        typer.Option("--queues", min=1, metavar="N", help="Queues of the topic on each broker."),
    ] = None,
    global_order: Annotated[
        bool,
        typer.Option("--global-order", help="One single queue: all messages in one order."),
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create a topic. Creating one that is there already, with as many queues, changes nothing."""
    count = _queue_count(queues, global_order=global_order)
    with open_client(name_server) as client:
        is_new = _create(client, topic, count, global_order=global_order)
    if as_json:
        print_json({"topic": topic, "queues": count, "globalOrder": count == 1, "created": is_new})
        return
    verb = "created topic" if is_new else "nothing to do: there is a topic"
    print_line(f"{verb} {topic} with {_queues(count)}")


@app.command(name="list")
def list_topics(
    all_topics: Annotated[
        bool,
        typer.Option("--all", help="Also RocketMQ's own topics, retry topics and dead letters."),
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: AsJson = False,
) -> None:
    """List topics with their number of queues."""
    with open_client(name_server) as client:
        hidden = {broker.name for broker in client.routes.brokers()} | _SYSTEM_TOPICS
        names = [
            name
            for name in client.routes.topics()
            if all_topics or not (name in hidden or name.startswith(_SYSTEM_PREFIXES))
        ]
        found = [(name, _readable_count(client, name)) for name in names]
    if as_json:
        print_json({"topics": [{"topic": name, "queues": count} for name, count in found]})
    else:
        print_table(("topic", "queues"), found)


@app.command()
def describe(
    topic: Topic, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: AsJson = False
) -> None:
    """Show what each queue of a topic holds: offsets [min, max) and when the last one came."""
    with open_client(name_server) as client:
        spans = sorted(client.broker.topic_stats(topic).items())
    rows = [
        (
            queue.broker_name,
            queue.queue_id,
            span.minimum,
            span.maximum,
            span.maximum - span.minimum,
            utc(span.last_stored_ms),
        )
        for queue, span in spans
    ]
    if as_json:
        names = ("broker", "queue", "minOffset", "maxOffset", "count", "lastStored")
        details = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"topic": topic, "count": sum(row[4] for row in rows), "queues": details})
    else:
        print_table(("broker", "queue", "min", "max", "count", "last stored"), rows)


@app.command()
def delete(
    topic: Topic, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: AsJson = False
) -> None:
    """Delete a topic and its messages, without asking."""
    with open_client(name_server) as client:
        client.broker.delete_topic(topic)
    if as_json:
        print_json({"topic": topic, "deleted": True})
    else:
        print_line(f"deleted topic {topic}")


def _queue_count(queues: int | None, *, global_order: bool) -> int:
    if global_order and queues not in (None, 1):
        raise typer.BadParameter(
            f"--global-order means one single queue, but --queues {queues} was given as well",
            param_hint="--queues",
        )
    if global_order:
        return 1
    if queues is None:
        raise typer.BadParameter("give --queues N, or --global-order", param_hint="--queues")
    return queues


def _create(client: Client, topic: str, count: int, *, global_order: bool) -> bool:
    """Create the topic and wait until clients find it; False if it was there already."""
    brokers = [broker for broker in client.routes.brokers() if broker.master]
    if global_order and len(brokers) > 1:
        fail(
            f"global order needs one queue on one broker, and a topic created here gets queues on "
            f"each of this cluster's {len(brokers)} brokers; create it with mqadmin updateTopic -b"
        )
    wanted = count * len(brokers)
    if found := _readable_count(client, topic):
        if found != wanted:
            fail(
                f"topic '{topic}' is there already, with {_queues(found)} in all instead of "
                f"{wanted}; another number would send keys to other queues and break their order: "
                "choose another name, or delete the topic first"
            )
        return False
    client.broker.create_topic(topic, count)
    deadline_ms = client.clock.monotonic_ms() + _ROUTE_TIMEOUT_MS
    while _readable_count(client, topic) < wanted:
        if client.clock.monotonic_ms() >= deadline_ms:
            fail(
                f"topic '{topic}' was created, but {name_servers(client)} did not learn of all "
                f"its {_queues(wanted)} within {_ROUTE_TIMEOUT_MS} ms"
            )
        client.clock.pause_ms(_ROUTE_POLL_MS)
    return True


def _readable_count(client: Client, topic: str) -> int:
    """How many queues of the topic the name server knows now; 0 for an unknown topic."""
    client.routes.forget(topic)
    try:
        return len(client.routes.readable(topic))
    except TopicNotFound:
        return 0


def name_servers(client: Client) -> str:
    """The addresses, for sentences."""
    return f"the name server {client.routes.name_servers}"


def _queues(count: int) -> str:
    return "1 queue" if count == 1 else f"{count} queues"
