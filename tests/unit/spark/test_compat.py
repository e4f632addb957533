"""Which Spark it takes, and which options are Spark's own."""

import subprocess
import sys

import pytest

from rmq_ordered.spark.compat import connector_options, ensure_supported


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.1", "5.0.0.dev1"])
def test_a_spark_with_admission_control_will_do(version: str) -> None:
    ensure_supported(version)


@pytest.mark.parametrize("version", ["3.5.6", "4.0.1", "4.1.1"])
def test_an_older_spark_is_refused_with_a_sentence(version: str) -> None:
    with pytest.raises(ImportError, match=f"needs Spark 4.2 or newer, found {version}"):
        ensure_supported(version)


def test_the_sentence_comes_before_the_missing_modules_of_an_older_spark() -> None:
    program = (
        "import sys, pyspark\n"
        "pyspark.__version__ = '4.1.1'\n"
        "sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "import pyspark_rmq_ordered\n"
    )
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 1
    assert "rmq-ordered needs Spark 4.2 or newer, found 4.1.1" in finished.stderr


def test_sparks_own_options_are_left_out() -> None:
    given = {"checkpointLocation": "/x", "path": "p", "queryName": "q", "group": "g"}
    assert connector_options(given) == {"group": "g"}
