import pyarrow as pa

from rmq_ordered.columnar import ERROR_COLUMN, MESSAGE_COLUMNS, PROPERTIES_COLUMN, message_schema


def test_columns_are_those_that_the_documentation_lists() -> None:
    assert MESSAGE_COLUMNS == (
        "key",
        "value",
        "topic",
        "broker",
        "queue",
        "offset",
        "timestamp",
        "born_timestamp",
        "tags",
        "index_keys",
        "message_id",
        "reconsume_times",
    )
    assert tuple(message_schema().names) == MESSAGE_COLUMNS


def test_the_map_of_properties_comes_last_and_only_if_asked_for() -> None:
    assert message_schema(include_properties=True).names == [*MESSAGE_COLUMNS, PROPERTIES_COLUMN]


def test_errors_come_after_everything_else_and_only_if_asked_for() -> None:
    schema = message_schema(include_properties=True, include_errors=True)
    assert schema.names == [*MESSAGE_COLUMNS, PROPERTIES_COLUMN, ERROR_COLUMN]
    assert message_schema(include_errors=True).names == [*MESSAGE_COLUMNS, ERROR_COLUMN]


def test_chosen_columns_keep_their_order_and_the_offset_is_always_there() -> None:
    assert message_schema(columns=frozenset({"tags", "value"})).names == ["value", "offset", "tags"]
    assert message_schema(columns=frozenset()).names == ["offset"]


def test_every_column_may_be_null_as_spark_has_it() -> None:
    assert all(field.nullable for field in message_schema(include_properties=True))


def test_types_are_those_that_spark_expects() -> None:
    schema = message_schema(include_properties=True)
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert schema.field("queue").type == pa.int32()
    properties = schema.field("properties").type
    assert (properties.key_field.name, properties.item_field.name) == ("key", "value")
    assert properties.item_field.nullable
