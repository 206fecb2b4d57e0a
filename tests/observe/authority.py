"""A certificate authority of a private network, made with openssl for the length of a test run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
OF_CA = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
OF_SERVER = "subjectAltName={}\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"

Pair = tuple[Path, Path]  # certificate (and those above it), key


class Authority:
    """A root, and an authority below it that signs the servers' certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = self._self_signed("root")
        self.below = self._signed("below", OF_CA + "authorityKeyIdentifier=keyid\n", self.root)

    def server(self, name: str, *, host: str = "IP:127.0.0.1", days: int = 2) -> Pair:
        """What a server shows: its certificate and the one above it, without the root."""
        crt, key = self._signed(name, OF_SERVER.format(host), self.below, days)
        chain = self.folder / f"{name}.chain.pem"
        chain.write_text(crt.read_text() + self.below[0].read_text())
        return chain, key

    def _self_signed(self, name: str) -> Pair:
        crt, key = self._paths(name)
        extensions = [word for line in OF_CA.splitlines()[1:] for word in ("-addext", line)]
        names = ["-subj", f"/CN={name}", "-days", "2", "-keyout", str(key), "-out", str(crt)]
        _openssl("req", "-x509", *CURVE, *names, *extensions)
        return crt, key

    def _signed(self, name: str, extensions: str, by: Pair, days: int = 2) -> Pair:
        crt, key = self._paths(name)
        request, wanted = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        wanted.write_text(extensions)
        _openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        signer = ["-CA", str(by[0]), "-CAkey", str(by[1]), "-CAcreateserial", "-days", str(days)]
        _openssl("x509", "-req", "-in", str(request), *signer, "-extfile", str(wanted), "-out", str(crt))
        return crt, key

    def _paths(self, name: str) -> Pair:
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


def _openssl(*words: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed, so there is no certificate to test with")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this openssl makes no such certificate: {done.stderr.strip().splitlines()[-1]}")
