import pyarrow as pa

from rmq_ordered.columnar import MESSAGE_COLUMNS, PROPERTIES_COLUMN, message_schema


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


def test_every_column_may_be_null_as_spark_has_it() -> None:
    assert all(field.nullable for field in message_schema(include_properties=True))


def test_types_are_those_that_spark_expects() -> None:
    schema = message_schema(include_properties=True)
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert schema.field("queue").type == pa.int32()
    properties = schema.field("properties").type
    assert (properties.key_field.name, properties.item_field.name) == ("key", "value")
    assert properties.item_field.nullable
