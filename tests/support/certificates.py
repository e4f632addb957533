"""Self-signed certificates for 127.0.0.1, made with the JDK alone."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.jvm import find_java

EXPORTER = Path(__file__).with_name("pem") / "KeyExport.java"
PASSWORD = "changeit"


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, name: str) -> Certificate:
    """Makes a key and a certificate that its own clients may trust."""
    home = folder / name
    home.mkdir()
    store = home / "keys.p12"
    options = ["-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", f"CN={name}"]
    options += ["-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12", "-storepass", PASSWORD]
    _run([find_java("keytool"), *options, "-keystore", str(store)])
    _run([find_java(), str(EXPORTER), str(store), PASSWORD])
    return Certificate(home / "cert.pem", home / "key.pem")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
