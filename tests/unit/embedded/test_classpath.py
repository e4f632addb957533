import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from rmq_ordered.embedded import classpath
from rmq_ordered.errors import EmbeddedBrokerError


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rmq-ordered-broker.jar"
    path.touch()
    monkeypatch.setattr(classpath, "BROKER_JAR", path)
    return path


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_the_class_path_is_our_jar_and_one_jar_of_each_library(jar: Path) -> None:
    first, *libraries = classpath.class_path()
    assert first == jar
    assert len({library.name.split("-2.")[0] for library in libraries}) == len(libraries)
    assert len(libraries) == len(classpath._SPARK_LIBRARIES)
    assert all(library.is_file() for library in libraries)


def test_a_missing_jar_is_an_error_that_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classpath, "BROKER_JAR", tmp_path / "none.jar")
    with pytest.raises(EmbeddedBrokerError) as error:
        classpath.class_path()
    assert str(error.value) == (
        f"the broker's jar is missing: expected {tmp_path}/none.jar; in a source tree run "
        "`make jar`, otherwise install the rmq-ordered wheel again"
    )


@pytest.mark.usefixtures("jar", "no_pyspark")
def test_without_pyspark_the_error_says_what_to_install() -> None:
    with pytest.raises(EmbeddedBrokerError, match="no PySpark was found: install it"):
        classpath.class_path()


@pytest.mark.usefixtures("jar", "no_pyspark")
def test_spark_home_will_do_where_pyspark_has_no_jars_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spark" / "jars"
    folder.mkdir(parents=True)
    for name in classpath._SPARK_LIBRARIES:
        (folder / f"{name}-1.2.3.jar").touch()
    # What PYTHONPATH=$SPARK_HOME/python gives: a package without a jars folder.
    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "spark" / "python" / "pyspark")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert {library.parent for library in classpath.class_path()[1:]} == {folder}


@pytest.mark.usefixtures("jar", "no_pyspark")
def test_a_spark_without_a_library_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    # A longer name is another library, not a version of this one.
    (tmp_path / "jars" / "jackson-annotations-extra-1.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(EmbeddedBrokerError, match="expected jackson-annotations among the jars"):
        classpath.class_path()
