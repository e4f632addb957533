"""What became of the rows of a queue, put together."""

from rmq_ordered.client.pieces import LaneTally
from rmq_ordered.model import MessageQueue, QueueReceipt, SendResult

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_a_tally_puts_pieces_together() -> None:
    tally = LaneTally(QueueReceipt(QUEUE))
    tally.add(QueueReceipt(QUEUE, 0, 2, None, None))
    tally.add(QueueReceipt(QUEUE, 3, 1, 7, 10))
    assert tally.receipt == QueueReceipt(QUEUE, 3, 3, None, 10)
    assert tally.results == [SendResult(QUEUE, -1, 2), SendResult(QUEUE, 7, 4)]
