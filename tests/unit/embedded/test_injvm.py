import pytest

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import EmbeddedBrokerError


class ConnectSession:
    """As pyspark.sql.connect: asking for the JVM raises a kind of AttributeError."""

    @property
    def _jvm(self) -> object:
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


class StoppedSession:
    """A classic session whose gateway is gone."""

    _jvm = None


@pytest.mark.parametrize("session", [ConnectSession(), StoppedSession()])
def test_a_session_without_a_jvm_is_refused_with_the_way_out(session: object) -> None:
    with pytest.raises(EmbeddedBrokerError, match=r"classic SparkSession.*leave spark out"):
        EmbeddedBroker(spark=session).start()
