"""What several processes need and one of them makes."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def made_once(target: Path, lock: Path, make: Callable[[], object]) -> Path:
    """Returns a file or folder, made by the first process that asks for it; others wait for it.

    Args:
        target: What is made.
        lock: A file that is locked meanwhile.
        make: Leaves the target complete, or not at all.
    """
    if not target.exists():
        with _locked(lock):
            if not target.exists():
                make()
    return target


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Holds a lock file, across processes; the kernel frees it when the holder dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
