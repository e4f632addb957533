"""Every option of source and sink, once: name, default, check and documentation.

Strings become one frozen, picklable value per role here and nowhere else; ``docs/options.md`` is
generated from the same tables. This package knows nothing of Spark: the caller drops Spark's own
keys first.
"""

from rmq_ordered.options.boundaries import Boundary, NoMatch, StartPosition
from rmq_ordered.options.connection import ConnectionOptions, SecretReference, TlsOptions
from rmq_ordered.options.page import options_markdown
from rmq_ordered.options.popping import ConsumeMode, PopOptions, PopOrder
from rmq_ordered.options.sink import SINK_OPTIONS, SinkOptions
from rmq_ordered.options.source import (
    Admission,
    RowOptions,
    Selection,
    SourceOptions,
    parse_rows,
)
from rmq_ordered.options.source_table import (
    SOURCE_OPTIONS,
    DecodeErrors,
    LeaseMode,
    ValueFormat,
)
from rmq_ordered.options.table import Option
from rmq_ordered.options.values import (
    parse_duration_ms,
    parse_group,
    parse_name_servers,
    parse_topic,
)

__all__ = [
    "SINK_OPTIONS",
    "SOURCE_OPTIONS",
    "Admission",
    "Boundary",
    "ConnectionOptions",
    "ConsumeMode",
    "DecodeErrors",
    "LeaseMode",
    "NoMatch",
    "Option",
    "PopOptions",
    "PopOrder",
    "RowOptions",
    "SecretReference",
    "Selection",
    "SinkOptions",
    "SourceOptions",
    "StartPosition",
    "TlsOptions",
    "ValueFormat",
    "options_markdown",
    "parse_duration_ms",
    "parse_group",
    "parse_name_servers",
    "parse_rows",
    "parse_topic",
]
