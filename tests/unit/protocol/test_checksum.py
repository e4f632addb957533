import importlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.protocol import checksum


@given(st.binary(max_size=5_000))
def test_a_body_has_the_crc_of_zlib_without_its_sign(body: bytes) -> None:
    expected = zlib.crc32(body) & 0x7FFF_FFFF
    assert checksum.body_crc(body) == checksum.body_crc(memoryview(body)) == expected


def test_zlib_does_where_isal_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    try:
        assert importlib.reload(checksum).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        importlib.reload(checksum)
