"""The name servers' key-value configuration on the wire."""

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.kv import delete_request, list_request, parse_list, put_request


def test_requests_name_namespace_key_and_value() -> None:
    put = put_request("space", "name", "text")
    assert (put.code, put.ext_fields) == (
        RequestCode.PUT_KV_CONFIG,
        {"key": "name", "namespace": "space", "value": "text"},
    )
    delete = delete_request("space", "name")
    assert (delete.code, delete.ext_fields) == (
        RequestCode.DELETE_KV_CONFIG,
        {"key": "name", "namespace": "space"},
    )
    listing = list_request("space")
    assert (listing.code, listing.ext_fields) == (
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        {"namespace": "space"},
    )


def test_a_listing_is_a_table_of_texts() -> None:
    assert parse_list(RemotingCommand(0, body=b'{"table":{"a":"1","b":"2"}}')) == {
        "a": "1",
        "b": "2",
    }


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"table":[]}', b'{"table":{"a":1}}'])
def test_a_listing_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_list(RemotingCommand(0, body=body))
