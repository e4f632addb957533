import subprocess
import sys

PROGRAM = """
import gc, resource
import numpy as np
from rmq_ordered.spark.worker import settle_in

def faults_of(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        arrays = [np.ones(1_000_000, np.uint8) for _ in range(8)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

settle_in()
settle_in()
faults_of(1)
print(gc.get_freeze_count() > 0, faults_of(20))
"""
PAGES_OF_ALL_ARRAYS = 20 * 8 * 1_000_000 // 4096


def test_a_worker_keeps_the_memory_of_arrays_and_spares_its_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60
    )
    is_frozen, faults = done.stdout.split()
    assert is_frozen == "True"
    # Without it every page of every array is a fault.
    assert int(faults) < PAGES_OF_ALL_ARRAYS // 10
