"""What the suite needs besides the package under test: real RocketMQ, Java clients, raw frames.

Nothing here imports ``rmq_ordered``: these are the independent witnesses that the package is
compared with.
"""
