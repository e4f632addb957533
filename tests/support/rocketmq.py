"""A real Apache RocketMQ: one name server and one broker, two JVMs in a temporary folder."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import frames
from tests.support.jvm import OPENED_INTERNALS, SMALL_JVM, find_java, rocketmq_properties
from tests.support.maven import rocketmq_jars
from tests.support.ports import free_base_port
from tests.support.processes import end, start_tethered, tail
from tests.support.waiting import DeadlineExceeded, wait_until

BROKER_NAME = "broker-a"
CLUSTER_NAME = "DefaultCluster"
START_TIMEOUT_S = 90.0  # about 6 s alone on two cores; far more when other suites share them
STOP_GRACE_S = 20.0
START_ATTEMPTS = 3

# RocketMQ's ports, relative to the broker's listenPort. It opens the "fast" port two below by
# itself.
BROKER, FAST, REPLICATION, NAME_SERVER = 0, -2, 1, 2
PORT_OFFSETS = (FAST, BROKER, REPLICATION, NAME_SERVER)

# The topic every broker with autoCreateTopicEnable registers: its route proves that the broker is
# known.
DEFAULT_TOPIC = "TBW102"

SMALL_FILES = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 20_000),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}
# A busy test machine is not an overloaded broker: do not answer SYSTEM_BUSY after 200 ms in a
# queue, and do not refuse writes because somebody else filled most of the disk.
PATIENCE = {
    "waitTimeMillsInSendQueue": "5000",
    "osPageCacheBusyTimeOutMills": "5000",
    "diskMaxUsedSpaceRatio": "95",
}


class RocketMqFailed(Exception):
    """RocketMQ did not start, or died; carries the end of its log."""

    def __init__(self, what: str, log_tail: str) -> None:
        self.what = what
        self.log_tail = log_tail
        super().__init__(what, log_tail)

    def __str__(self) -> str:
        return f"{self.what}; its last log lines:\n{self.log_tail}"


class RocketMq:
    """A cluster of one broker, started on entry and gone without trace on exit.

    Not thread-safe. After `kill_broker` the store stays as the broker left it, so `restart_broker`
    recovers from it.

    Args:
        settings: More lines for broker.conf; they win over the defaults here. broker_java_options:
        Replace the JVM options of the broker (a benchmark wants other ones than a test).
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        broker_java_options: Sequence[str] = (
            *SMALL_JVM,
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=512m",
        ),
    ) -> None:
        self._settings = dict(settings or {})
        self._broker_java_options = tuple(broker_java_options)
        self._resources = ExitStack()
        self._name_server_process: subprocess.Popen[bytes] | None = None
        self._broker_process: subprocess.Popen[bytes] | None = None
        self._home = Path()
        self._base_port = 0
        self.broker_name = BROKER_NAME
        self.cluster_name = CLUSTER_NAME

    @property
    def name_server(self) -> str:
        """Address of the name server, as clients want it."""
        return self._address(NAME_SERVER)

    @property
    def broker_address(self) -> str:
        """Address of the broker, as routes give it."""
        return self._address(BROKER)

    @property
    def broker_pid(self) -> int | None:
        """Process id of the broker's JVM, or None while there is none."""
        return self._broker_process.pid if self._broker_process else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts both processes and waits until the name server knows the broker.

        Raises:
            MavenUnavailable: RocketMQ is not in the cache and cannot be fetched.
            RocketMqFailed: A process ended, or was not ready in time.
        """
        rocketmq_jars()
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_once()
            except RocketMqFailed as failure:
                self.stop()
                # Another server can take a port between our look and RocketMQ's bind.
                if "BindException" not in failure.log_tail or attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def kill_broker(self) -> None:
        """Kills the broker with SIGKILL and waits until the name server has noticed."""
        if self._broker_process is not None:
            end(self._broker_process)
            self._broker_process = None
        wait_until(
            lambda: frames.route(self.name_server, DEFAULT_TOPIC).code == frames.TOPIC_NOT_EXIST,
            "the name server has dropped the killed broker",
            START_TIMEOUT_S,
        )

    def restart_broker(self) -> None:
        """Starts the broker again on its store and ports; a running one is first asked to stop."""
        if self._broker_process is not None:
            end(self._broker_process, grace_s=STOP_GRACE_S)
            self.kill_broker()
        self._start_broker()

    def stop(self) -> None:
        """Ends both processes at once: the store is thrown away, so there is nothing to flush."""
        for process in (self._broker_process, self._name_server_process):
            if process is not None:
                end(process)
        self._broker_process = self._name_server_process = None
        self._resources.close()

    def _start_once(self) -> None:
        folder = tempfile.TemporaryDirectory(
            prefix="rmq-ordered-rocketmq-", ignore_cleanup_errors=True
        )
        self._home = Path(self._resources.enter_context(folder))
        self._base_port = free_base_port(PORT_OFFSETS)
        self._start_name_server()
        self._start_broker()

    def _start_name_server(self) -> None:
        # Off by default in RocketMQ, but routes with the declared queues are part of the contract.
        ordered = {"orderMessageEnable": "true"}
        address = {"listenPort": str(self._base_port + NAME_SERVER), "bindAddress": "127.0.0.1"}
        config = {**address, **ordered}
        main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
        options = (*SMALL_JVM, "-Xmx128m", "-XX:TieredStopAtLevel=1")
        self._name_server_process = self._start_jvm("namesrv", main_class, config, options)

    def _start_broker(self) -> None:
        main_class = "org.apache.rocketmq.broker.BrokerStartup"
        config = {**self._broker_settings(), **self._settings}
        self._broker_process = self._start_jvm(
            "broker", main_class, config, self._broker_java_options
        )
        try:
            wait_until(
                self._is_ready, "RocketMQ's broker is registered and answers", START_TIMEOUT_S
            )
        except DeadlineExceeded as late:
            raise RocketMqFailed(str(late), tail(self._log("broker"))) from late

    def _broker_settings(self) -> dict[str, str]:
        return {
            "brokerClusterName": CLUSTER_NAME,
            "brokerName": BROKER_NAME,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "namesrvAddr": self.name_server,
            "listenPort": str(self._base_port + BROKER),
            "haListenPort": str(self._base_port + REPLICATION),
            "storePathRootDir": str(self._home / "store"),
            "storePathCommitLog": str(self._home / "store" / "commitlog"),
            "autoCreateTopicEnable": "true",
            **SMALL_FILES,
            **PATIENCE,
        }

    def _start_jvm(
        self, role: str, main_class: str, config: Mapping[str, str], options: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        config_file = self._home / f"{role}.conf"
        lines = "".join(f"{name}={value}\n" for name, value in config.items())
        config_file.write_text(lines, encoding="utf-8")
        java = [find_java(), *options, *OPENED_INTERNALS, *rocketmq_properties(self._home)]
        command = [*java, "-cp", f"{rocketmq_jars()}/*", main_class, "-c", str(config_file)]
        with self._log(role).open("ab") as log:
            return start_tethered(command, stdout=log, stderr=log)

    def _is_ready(self) -> bool:
        self._ensure_running("namesrv", self._name_server_process)
        self._ensure_running("broker", self._broker_process)
        with suppress(OSError):
            route = frames.route(self.name_server, DEFAULT_TOPIC)
            if route.code != frames.SUCCESS or not json.loads(route.body)["brokerDatas"]:
                return False
            answer = frames.ask(self.broker_address, frames.GET_BROKER_RUNTIME_INFO)
            return answer.code == frames.SUCCESS
        return False

    def _ensure_running(self, role: str, process: subprocess.Popen[bytes] | None) -> None:
        if process is None or process.poll() is not None:
            status = None if process is None else process.returncode
            raise RocketMqFailed(f"RocketMQ's {role} ended with {status}", tail(self._log(role)))

    def _log(self, role: str) -> Path:
        return self._home / f"{role}.log"

    def _address(self, offset: int) -> str:
        return f"127.0.0.1:{self._base_port + offset}"
