"""What every test of the client begins with."""

from collections.abc import Iterator

import pytest
from tests.support.lease_rig import Rig

from rmq_ordered.client import Client
from rmq_ordered.testing import BrokerDouble, ClusterDouble


@pytest.fixture
def client(cluster: ClusterDouble) -> Iterator[Client]:
    """A client of the cluster that the test module describes."""
    with cluster.client() as client:
        yield client


@pytest.fixture
def broker(cluster: ClusterDouble) -> BrokerDouble:
    """The first of that cluster, or the only one."""
    return cluster.brokers[0]


@pytest.fixture(params=[True, False], ids=["with epochs", "without epochs"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(has_epochs=request.param)
    yield rig
    rig.close()


@pytest.fixture
def fenced() -> Iterator[Rig]:
    rig = Rig(has_epochs=True)
    yield rig
    rig.close()
