"""The numbers of the protocol: a typo here would be a different request."""

from rmq_ordered.protocol.codes import Permission, PullFlag, RequestCode, ResponseCode

# RocketMQ's own numbers, from its RequestCode and ResponseCode; ours lie outside its ranges.
ROCKETMQ_REQUESTS = {
    "PULL_MESSAGE": 11, "QUERY_CONSUMER_OFFSET": 14, "UPDATE_CONSUMER_OFFSET": 15,
    "UPDATE_AND_CREATE_TOPIC": 17, "GET_BROKER_RUNTIME_INFO": 28,
    "SEARCH_OFFSET_BY_TIMESTAMP": 29, "GET_MAX_OFFSET": 30,
    "GET_MIN_OFFSET": 31, "HEART_BEAT": 34, "UNREGISTER_CLIENT": 35,
    "CONSUMER_SEND_MSG_BACK": 36, "CHECK_TRANSACTION_STATE": 39, "CHECK_CLIENT_CONFIG": 46,
    "PUT_KV_CONFIG": 100, "DELETE_KV_CONFIG": 102, "GET_KVLIST_BY_NAMESPACE": 219,
    "RESET_CONSUMER_CLIENT_OFFSET": 220, "GET_CONSUMER_STATUS_FROM_CLIENT": 221,
    "GET_CONSUMER_RUNNING_INFO": 307, "CONSUME_MESSAGE_DIRECTLY": 309,
    "GET_CONSUMER_LIST_BY_GROUP": 38, "NOTIFY_CONSUMER_IDS_CHANGED": 40, "LOCK_BATCH_MQ": 41,
    "UNLOCK_BATCH_MQ": 42, "GET_ROUTEINFO_BY_TOPIC": 105, "GET_BROKER_CLUSTER_INFO": 106,
    "GET_TOPIC_STATS_INFO": 202, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": 206,
    "DELETE_TOPIC_IN_BROKER": 215, "DELETE_TOPIC_IN_NAMESRV": 216, "SEND_MESSAGE_V2": 310,
    "SEND_BATCH_MESSAGE": 320, "QUERY_ASSIGNMENT": 400,
    "SET_MESSAGE_REQUEST_MODE": 401, "POP_MESSAGE": 200050, "ACK_MESSAGE": 200051,
    "CHANGE_MESSAGE_INVISIBLETIME": 200053,
}  # fmt: skip
ROCKETMQ_RESPONSES = {
    "SUCCESS": 0, "SYSTEM_ERROR": 1, "SYSTEM_BUSY": 2, "REQUEST_CODE_NOT_SUPPORTED": 3,
    "FLUSH_DISK_TIMEOUT": 10, "SLAVE_NOT_AVAILABLE": 11, "FLUSH_SLAVE_TIMEOUT": 12,
    "MESSAGE_ILLEGAL": 13, "SERVICE_NOT_AVAILABLE": 14, "NO_PERMISSION": 16, "TOPIC_NOT_EXIST": 17,
    "PULL_NOT_FOUND": 19, "PULL_RETRY_IMMEDIATELY": 20, "PULL_OFFSET_MOVED": 21,
    "QUERY_NOT_FOUND": 22, "SUBSCRIPTION_GROUP_NOT_EXIST": 26, "INVALID_PARAMETER": 29,
    "POLLING_FULL": 209, "POLLING_TIMEOUT": 210, "FLOW_CONTROL": 215, "GO_AWAY": 1500,
}  # fmt: skip


def test_request_codes_are_those_of_rocketmq() -> None:
    assert {name: RequestCode[name].value for name in ROCKETMQ_REQUESTS} == ROCKETMQ_REQUESTS


def test_response_codes_are_those_of_rocketmq() -> None:
    assert {name: ResponseCode[name].value for name in ROCKETMQ_RESPONSES} == ROCKETMQ_RESPONSES


def test_codes_of_our_own_do_not_collide_with_those_of_rocketmq() -> None:
    ours = {code for code in RequestCode if code.name not in ROCKETMQ_REQUESTS}
    assert all(code >= 19_000 for code in ours)
    refusals = {code for code in ResponseCode if code.name not in ROCKETMQ_RESPONSES}
    assert all(9_000 <= code < 10_000 for code in refusals)


def test_pull_flags_and_permissions_are_bits() -> None:
    assert [flag.value for flag in PullFlag] == [1, 2, 4, 8, 16]
    assert Permission.READ | Permission.WRITE == 6
