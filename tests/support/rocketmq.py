"""A real Apache RocketMQ: a name server and one broker or several, JVMs in a temporary folder."""

import json
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import frames
from tests.support.certificates import Certificate
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
BROKER, FAST, REPLICATION = 0, -2, 1
PORT_OFFSETS = (FAST, BROKER, REPLICATION)

# The topic every broker with autoCreateTopicEnable registers: its route proves that the broker is
# known.
DEFAULT_TOPIC = "TBW102"

FRUGAL = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 20_000),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    # Every second it would write the whole wheel of delayed messages: a tenth of a core.
    "timerFlushIntervalMs": "10000",
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


@dataclass(frozen=True)
class Security:
    """TLS with certificates on both sides, and ACL 2.0 with one user who may do everything.

    Args:
        authority: PEM file of who signed all certificates.
        certificate: of name server and broker, and of the clients that the brokers are.
        user: the access key of the user who may do everything.
        secret: this user's secret key.
    """

    authority: Path
    certificate: Certificate
    user: str
    secret: str

    def java_options(self) -> tuple[str, ...]:
        """Returns the JVM options of name server and broker: both serve and speak TLS only."""
        return (
            "-Dtls.enable=true",
            "-Dtls.test.mode.enable=false",
            "-Dtls.server.mode=enforcing",
            f"-Dtls.server.certPath={self.certificate.certificate}",
            f"-Dtls.server.keyPath={self.certificate.key}",
            "-Dtls.server.need.client.auth=require",
            "-Dtls.server.authClient=true",
            f"-Dtls.server.trustCertPath={self.authority}",
            "-Dtls.client.authServer=true",
            f"-Dtls.client.trustCertPath={self.authority}",
            f"-Dtls.client.certPath={self.certificate.certificate}",
            f"-Dtls.client.keyPath={self.certificate.key}",
        )

    def broker_settings(self, home: Path) -> dict[str, str]:
        """Returns the lines of broker.conf that switch both halves of ACL 2.0 on."""
        package = "org.apache.rocketmq.auth"
        authentication, authorization = f"{package}.authentication", f"{package}.authorization"
        user = {"username": self.user, "password": self.secret}
        inner = {"accessKey": self.user, "secretKey": self.secret}
        return {
            "authenticationEnabled": "true",
            "authenticationProvider": f"{authentication}.provider.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": (
                f"{authentication}.provider.LocalAuthenticationMetadataProvider"
            ),
            "initAuthenticationUser": json.dumps(user),
            "innerClientAuthenticationCredentials": json.dumps(inner),
            "authorizationEnabled": "true",
            "authorizationProvider": f"{authorization}.provider.DefaultAuthorizationProvider",
            "authorizationMetadataProvider": (
                f"{authorization}.provider.LocalAuthorizationMetadataProvider"
            ),
            "authConfigPath": str(home / "auth"),
        }

    def context(self) -> ssl.SSLContext:
        """Returns what a client needs to trust the servers."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        return context


class RocketMq:
    """A cluster, started on entry and gone without trace on exit.

    Not thread-safe. After `kill_broker` the store stays as the broker left it, so `restart_broker`
    recovers from it.

    Args:
        settings: More lines for every broker.conf; they win over the defaults here.
        brokers: The names of the brokers, each a master.
        broker_java_options: Replace the JVM options of the brokers (a benchmark wants other ones
            than a test).
        security: Switches TLS and access control on.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        brokers: Sequence[str] = (BROKER_NAME,),
        broker_java_options: Sequence[str] = (
            *SMALL_JVM,
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=512m",
        ),
        security: Security | None = None,
    ) -> None:
        self._settings = dict(settings or {})
        self._names = tuple(brokers)
        self._broker_java_options = tuple(broker_java_options)
        self._security = security
        self._resources = ExitStack()
        self._name_server_process: subprocess.Popen[bytes] | None = None
        self._brokers: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        self._name_server_port = 0
        self._home = Path()
        self.broker_name = self._names[0]
        self.cluster_name = CLUSTER_NAME

    @property
    def name_server(self) -> str:
        """Address of the name server, as clients want it."""
        return f"127.0.0.1:{self._name_server_port}"

    @property
    def broker_address(self) -> str:
        """Address of the (first) broker, as routes give it."""
        return self.address_of(self.broker_name)

    @property
    def broker_pid(self) -> int | None:
        """Process id of the (first) broker's JVM, or None while there is none."""
        process = self._brokers.get(self.broker_name)
        return process.pid if process else None

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

    def address_of(self, broker_name: str) -> str:
        """Returns the address of one broker, as routes give it."""
        return f"127.0.0.1:{self._ports[broker_name] + BROKER}"

    def start(self) -> None:
        """Starts all processes and waits until the name server knows every broker.

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

    def kill_broker(self, broker_name: str | None = None) -> None:
        """Kills a broker with SIGKILL and waits until the name server has noticed."""
        name = broker_name or self.broker_name
        process = self._brokers.pop(name, None)
        if process is not None:
            end(process)
        wait_until(
            lambda: name not in self._registered(),
            f"the name server has dropped the killed broker {name}",
            START_TIMEOUT_S,
        )

    def signal_broker(self, number: int, broker_name: str | None = None) -> None:
        """Sends a signal to a broker's process, to stop it for a while or to let it go on."""
        self._brokers[broker_name or self.broker_name].send_signal(number)

    def restart_broker(self, broker_name: str | None = None) -> None:
        """Starts a broker again on its store and ports; a running one is first asked to stop."""
        name = broker_name or self.broker_name
        if name in self._brokers:
            end(self._brokers[name], grace_s=STOP_GRACE_S)
            self.kill_broker(name)
        self._start_broker(name)
        self._await_ready([name])

    def configure(self, broker_name: str, **settings: str) -> None:
        """Changes settings of a running broker; its routes follow a moment later."""
        body = "".join(f"{name}={value}\n" for name, value in settings.items())
        address = self.address_of(broker_name)
        frames.request(address, frames.UPDATE_BROKER_CONFIG, body=body.encode())

    def stop(self) -> None:
        """Ends all processes at once: the store is thrown away, so there is nothing to flush."""
        for process in (*self._brokers.values(), self._name_server_process):
            if process is not None:
                end(process)
        self._brokers = {}
        self._name_server_process = None
        self._resources.close()

    def _start_once(self) -> None:
        folder = tempfile.TemporaryDirectory(
            prefix="rmq-ordered-rocketmq-", ignore_cleanup_errors=True
        )
        self._home = Path(self._resources.enter_context(folder))
        self._name_server_port = free_base_port((0,))
        self._ports = {name: free_base_port(PORT_OFFSETS) for name in self._names}
        self._start_name_server()
        for name in self._names:
            self._start_broker(name)
        self._await_ready(self._names)

    def _start_name_server(self) -> None:
        # Off by default in RocketMQ, but routes with the declared queues are part of the contract.
        ordered = {"orderMessageEnable": "true"}
        address = {"listenPort": str(self._name_server_port), "bindAddress": "127.0.0.1"}
        config = {**address, **ordered}
        main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
        options = (*SMALL_JVM, "-Xmx128m")
        self._name_server_process = self._start_jvm("namesrv", main_class, config, options)

    def _start_broker(self, name: str) -> None:
        main_class = "org.apache.rocketmq.broker.BrokerStartup"
        config = {**self._broker_settings(name), **self._settings}
        self._brokers[name] = self._start_jvm(name, main_class, config, self._broker_java_options)

    def _await_ready(self, names: Sequence[str]) -> None:
        try:
            wait_until(
                lambda: all(self._is_ready(name) for name in names),
                "RocketMQ's broker is registered and answers",
                START_TIMEOUT_S,
            )
        except DeadlineExceeded as late:
            raise RocketMqFailed(str(late), tail(self._log(names[0]))) from late

    def _broker_settings(self, name: str) -> dict[str, str]:
        store = self._home / name
        security = self._security.broker_settings(store) if self._security else {}
        return {
            "brokerClusterName": CLUSTER_NAME,
            "brokerName": name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "namesrvAddr": self.name_server,
            "listenPort": str(self._ports[name] + BROKER),
            "haListenPort": str(self._ports[name] + REPLICATION),
            "storePathRootDir": str(store / "store"),
            "storePathCommitLog": str(store / "store" / "commitlog"),
            "autoCreateTopicEnable": "true",
            **FRUGAL,
            **PATIENCE,
            **security,
        }

    def _start_jvm(
        self, role: str, main_class: str, config: Mapping[str, str], options: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        config_file = self._home / f"{role}.conf"
        lines = "".join(f"{name}={value}\n" for name, value in config.items())
        config_file.write_text(lines, encoding="utf-8")
        security = self._security.java_options() if self._security else ()
        java = [find_java(), *options, *security, *OPENED_INTERNALS]
        java += [*rocketmq_properties(self._home), "-cp", f"{rocketmq_jars()}/*"]
        with self._log(role).open("ab") as log:
            return start_tethered(
                [*java, main_class, "-c", str(config_file)], stdout=log, stderr=log
            )

    def _is_ready(self, name: str) -> bool:
        self._ensure_running("namesrv", self._name_server_process)
        self._ensure_running(name, self._brokers.get(name))
        with suppress(OSError):
            if name not in self._registered():
                return False
            answer = self._ask(self.address_of(name), frames.GET_BROKER_RUNTIME_INFO, {})
            # A broker with access control refuses a stranger, but it is there.
            return answer.code == frames.SUCCESS or self._security is not None
        return False

    def _registered(self) -> set[str]:
        """The brokers in the name server's route of the topic that all of them have."""
        route = self._ask(
            self.name_server,
            frames.GET_ROUTEINFO_BY_TOPIC,
            {"topic": DEFAULT_TOPIC, "acceptStandardJsonOnly": True},
        )
        if route.code != frames.SUCCESS:
            return set()
        return {data["brokerName"] for data in json.loads(route.body)["brokerDatas"]}

    def _ask(self, address: str, code: int, fields: Mapping[str, object]) -> frames.Reply:
        context = self._security.context() if self._security else None
        return frames.ask(address, code, fields, context=context)

    def _ensure_running(self, role: str, process: subprocess.Popen[bytes] | None) -> None:
        if process is None or process.poll() is not None:
            status = None if process is None else process.returncode
            raise RocketMqFailed(f"RocketMQ's {role} ended with {status}", tail(self._log(role)))

    def _log(self, role: str) -> Path:
        return self._home / f"{role}.log"
