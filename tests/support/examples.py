"""How many examples a generated test tries: all of them in `make proof`, a share before that."""

import os

# Environment: per cent of what a test asks for.
SHARE = "RMQ_ORDERED_EXAMPLES"
FEWEST = 15


def examples(count: int) -> int:
    """As many as the tier wants of this many."""
    return max(min(count, FEWEST), count * int(os.environ.get(SHARE, "100")) // 100)
