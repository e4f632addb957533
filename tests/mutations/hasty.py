"""A plugin of pytest: an example that fails is enough, nobody reads it, so it need not be small."""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Takes over the profile that the suite's ``conftest.py`` has loaded, but for the shrinking."""
    settings.register_profile(
        "hasty", settings(), phases=[Phase.explicit, Phase.reuse, Phase.generate], database=None
    )
    settings.load_profile("hasty")
