"""Every source file has a test file of the same path, and no test file has lost its source."""

import pytest
from tests.support.paths import ROOT

PACKAGE = ROOT / "python" / "rmq_ordered"
UNIT = ROOT / "tests" / "unit"
# Top-level modules are "."; the edges (spark, cli) are tested through Spark and the shell as well,
# and decide themselves what is left for unit tests.
MIRRORED = [".", "client", "columnar", "embedded", "net", "options",
            "ordering", "protocol", "testing"]  # fmt: skip
# An interface without behaviour, and a constant.
EXEMPT = {"__init__", "clock", "version"}


def mirror_of(folder: str, module: str) -> str:
    return (UNIT / folder / f"test_{module}.py").relative_to(ROOT).as_posix()


def modules(folder: str) -> set[str]:
    names = {path.stem for path in (PACKAGE / folder).glob("*.py")}
    return names - (EXEMPT if folder == "." else {"__init__"})


@pytest.mark.parametrize("folder", MIRRORED)
def test_every_module_has_a_test_file(folder: str) -> None:
    found = modules(folder)
    assert found, "the package exists"
    expected = {mirror_of(folder, module) for module in found}
    assert {path for path in expected if not (ROOT / path).is_file()} == set()


@pytest.mark.parametrize("folder", MIRRORED)
def test_every_test_file_has_a_module(folder: str) -> None:
    orphans = {
        path.name
        for path in (UNIT / folder).glob("test_*.py")
        if path.stem.removeprefix("test_") not in modules(folder)
    }
    assert orphans == set()
