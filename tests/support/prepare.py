"""Makes, once, what the tests share and what takes long: a run that follows begins at once.

Apache RocketMQ from Maven, and the classes that the JVMs of Spark and of the embedded broker load.
``python -m tests.support.prepare`` says what it is at; what cannot be made is left to the tests
that need it, which say why.
"""

import sys
from collections.abc import Callable

from tests.support.embedded_start import quick_brokers
from tests.support.java_programs import compiled_programs
from tests.support.maven import ROCKETMQ_5, ToolUnavailable, rocketmq_jars
from tests.support.spark_home import quick_start

STEPS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("Apache RocketMQ", rocketmq_jars),
    ("programs for Apache's Java clients", lambda: compiled_programs(ROCKETMQ_5)),
    ("classes of the embedded broker", quick_brokers),
    ("classes of Spark", quick_start),
)


def main() -> None:
    """Does every step, or says why it cannot be."""
    for what, make in STEPS:
        print(f"preparing {what} ...", flush=True)
        try:
            make()
        except ToolUnavailable as missing:
            print(f"{what} cannot be had: {missing.reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
