"""The name servers' key-value configuration: namespaces of texts, kept on their disks."""

from __future__ import annotations

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.bodies import decode_object, typed
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand


def put_request(namespace: str, key: str, value: str) -> RemotingCommand:
    """Store a text under a key."""
    fields = {"key": key, "namespace": namespace, "value": value}
    return RemotingCommand(RequestCode.PUT_KV_CONFIG, ext_fields=fields)


def delete_request(namespace: str, key: str) -> RemotingCommand:
    """Remove a key; one that is not there is removed already."""
    fields = {"key": key, "namespace": namespace}
    return RemotingCommand(RequestCode.DELETE_KV_CONFIG, ext_fields=fields)


def list_request(namespace: str) -> RemotingCommand:
    """Ask for everything in a namespace; an empty one is answered QUERY_NOT_FOUND."""
    return RemotingCommand(RequestCode.GET_KVLIST_BY_NAMESPACE, ext_fields={"namespace": namespace})


def parse_list(response: RemotingCommand) -> dict[str, str]:
    """The pairs in an answer to ``list_request``."""
    what = "key-value configuration"
    table = typed(decode_object(response.body, what), "table", dict, what)
    for key, value in table.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise RemoteProtocolError(f"{what}: expected texts, found {key!r:.80}: {value!r:.80}")
    return table
