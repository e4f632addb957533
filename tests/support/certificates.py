"""Certificates for 127.0.0.1: self-signed ones, made with the JDK alone, and those of an authority.

The former are for processes that know no Python; the latter take no time to make.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
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


def write_authority(authority: trustme.CA, path: Path) -> Path:
    """Writes what its clients trust."""
    authority.cert_pem.write_to_path(str(path))
    return path


def issue_certificate(authority: trustme.CA, folder: Path, name: str) -> Certificate:
    """Makes a key and a certificate that the authority signed, good for 127.0.0.1 only."""
    issued = authority.issue_cert("127.0.0.1", common_name=name)
    files = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    # Netty reads keys in PKCS#8 only.
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
