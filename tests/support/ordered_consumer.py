"""A program with this project's consumer that prints what Apache's OrderlyConsumer program prints.

It is killed and stopped like the Java ones: end of standard input is the wish to stop. Arguments:
name server, topic, group, milliseconds of work per message.
"""

import json
import logging
import sys
import threading
import time

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    MessageBatch,
    OrderedConsumer,
)
from rmq_ordered.protocol.properties import PROPERTY_KEYS, PROPERTY_SHARDING_KEY

PRINTING = threading.Lock()
# For brokers whose leases end after 8 s, as the Java programs have it: renewed every 2 s.
QUICK = ConsumerSettings(
    renew_ms=2_000, trust_ms=6_000, heartbeat_ms=1_000, rebalance_ms=2_000, commit_ms=200
)


def say(event: str, **fields: object) -> None:
    with PRINTING:
        print(json.dumps({"event": event, **fields}), flush=True)


def listener(work_s: float) -> "object":
    def handle(batch: MessageBatch) -> ConsumeResult:
        for message in batch:
            started_at = time.time_ns() // 1_000_000
            time.sleep(work_s)
            say(
                "message",
                queueId=batch.queue.queue_id,
                queueOffset=message.queue_offset,
                key=message.properties.get(PROPERTY_SHARDING_KEY),
                keys=message.properties.get(PROPERTY_KEYS),
                body=message.body.decode(),
                reconsumeTimes=message.reconsume_times,
                startedAt=started_at,
                endedAt=time.time_ns() // 1_000_000,
            )
        return ConsumeResult.SUCCESS

    return handle


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    name_server, topic, group, work_ms = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with Client(name_server, request_timeout_ms=15_000) as client:
        handle = listener(int(work_ms) / 1000)
        with OrderedConsumer(client, group, [topic], handle, QUICK) as consumer:
            say("started", clientId=consumer.client_id)
            assigned: list[int] | None = None
            while not ended.wait(0.05):
                found = sorted(q.queue_id for q in consumer.queues if q.topic == topic)
                if found != assigned:
                    assigned = found
                    say("assigned", queueIds=found)
    say("stopped")


if __name__ == "__main__":
    main()
