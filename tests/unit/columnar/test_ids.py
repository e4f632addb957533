import pyarrow as pa
import pytest
from tests.unit.columnar.samples import QUEUE, message, records

from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.columnar.fields import read_fields
from rmq_ordered.columnar.ids import message_id_column
from rmq_ordered.protocol.message import offset_message_id

V4 = message(commit_log_offset=2**40 + 5)
V6 = message(store_host="[2001:db8::ff]:10911", commit_log_offset=-2)


def ids(unique_keys: list[str | None]) -> list[str]:
    found = split_records(records(V4, V6, V4), QUEUE)
    column = message_id_column(pa.array(unique_keys, pa.string()), found, read_fields(found))
    column.validate(full=True)
    return list(column.to_pylist())


V4_ID = offset_message_id(V4.store_host, V4.commit_log_offset)
V6_ID = offset_message_id(V6.store_host, V6.commit_log_offset)


@pytest.mark.parametrize(
    ("unique_keys", "expected"),
    [
        (["a", "b", "c"], ["a", "b", "c"]),
        (["a", None, "c"], ["a", V6_ID, "c"]),
        ([None, "b", "c"], [V4_ID, "b", "c"]),
        ([None, None, None], [V4_ID, V6_ID, V4_ID]),
    ],
)
def test_a_message_without_a_unique_key_is_named_by_where_it_lies(
    unique_keys: list[str | None], expected: list[str]
) -> None:
    assert ids(unique_keys) == expected
