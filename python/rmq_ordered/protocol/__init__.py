"""RocketMQ's remoting protocol as pure functions and state machines: bytes in, values out.

Nothing here opens a socket, reads a clock or starts a thread (import-linter checks it).
"""
