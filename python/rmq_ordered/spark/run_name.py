"""Which run of a query a task belongs to: what it reads is bound to what it writes by that.

Reading and writing tasks see the same (``docs/decisions/0021-fenced-writes.md``).
"""

from __future__ import annotations

import uuid
from typing import Final

from pyspark import TaskContext

# Local properties that Spark gives to the tasks of a micro-batch.
QUERY_PROPERTY: Final = "sql.streaming.queryId"
RUN_PROPERTY: Final = "spark.jobGroup.id"


def run_of_task() -> str | None:
    """The query and its run together; None where Spark does not tell.

    Spark keeps the run's id as the job group. A user who sets a group hides it, and the user's
    group may be the same in the next run: a run that is over must not be taken for one that lives.
    """
    context = TaskContext.get()
    if context is None:
        return None
    query, run = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(RUN_PROPERTY)
    if query is None or run is None or not _is_uuid(run):
        return None
    return f"{query}/{run}"


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
