"""Which keys a task has written: a small sample that shows whether two tasks share keys."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.routing import java_string_hashes

# Of each task the keys with the lowest hashes: all of them up to this number, and beyond it the
# same ones in every task, so that a key in two samples is found if keys are spread at all.
_KEPT: Final = 256
_SHOWN_CHARACTERS: Final = 100
_FACTOR: Final = np.uint64(0x9E37_79B9_7F4A_7C15)

Sample = frozenset[tuple[int, str]]


class KeySample:
    """Collects the sample of one task. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: set[tuple[int, str]] = set()
        self._below = 2**64
        self._known = pa.array([], pa.string())

    def add(self, keys: pa.Array) -> None:
        """Keys of rows; nulls are none."""
        unique = keys.drop_null().unique()
        if not len(unique):
            return
        hashes = java_string_hashes(unique).astype(np.uint64) * _FACTOR
        low = np.flatnonzero(hashes < min(self._below, 2**64 - 1))
        # Most keys come in every batch: only those not kept yet are worth a Python object.
        is_kept = pc.is_in(unique.take(pa.array(low)), self._known)
        new = low[~is_kept.to_numpy(zero_copy_only=False)].tolist()
        if not new:
            return
        for at in new:
            self._kept.add((int(hashes[at]), unique[at].as_py()[:_SHOWN_CHARACTERS]))
        if len(self._kept) > _KEPT:
            lowest = sorted(self._kept)[:_KEPT]
            self._kept = set(lowest)
            self._below = lowest[-1][0] + 1
        self._known = pa.array([text for _, text in self._kept], pa.string())

    @property
    def sample(self) -> Sample:
        """What to compare with other tasks."""
        return frozenset(self._kept)


def shared_key(samples: list[Sample]) -> str | None:
    """A key that two tasks have written, if one is found."""
    seen: set[tuple[int, str]] = set()
    for sample in samples:
        both = seen & sample
        if both:
            return min(both)[1]
        seen |= sample
    return None
