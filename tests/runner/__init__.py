"""Runs the tiers of tests in both languages, shows how far they are, and keeps what came out.

``python -m tests.runner test [ARGS...]``: ``quick`` needs no server, ``test`` has a proof of every
promise, ``proof`` has the long ones; ``verify`` says whether the last ``test`` and ``proof`` have
proved everything together. The arguments are pytest's; paths and ``-k`` select Scala's tests too.
"""
