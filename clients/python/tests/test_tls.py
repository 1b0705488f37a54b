"""https, with a client certificate."""

import shutil
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from fleetpace import Fleetpace, FleetpaceError, Unavailable

from .facade import Facade
from .fake import FakeServer


@unittest.skipUnless(shutil.which("openssl"), "the openssl command is not here; it makes the certificates")
class TLS(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("server", "client"):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt", "-days", "2",
                 "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
                check=True, capture_output=True,
            )  # fmt: skip
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        served.load_verify_locations(self.folder / "client.crt")
        served.verify_mode = ssl.CERT_REQUIRED
        self.server = FakeServer(tls=served)
        self.addCleanup(self.server.stop)

    def trusting(self, certificate: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "server.crt"))
        if certificate:
            context.load_cert_chain(self.folder / f"{certificate}.crt", self.folder / f"{certificate}.key")
        return context

    def test_a_client_certificate(self) -> None:
        for kind in (Fleetpace, Facade):
            with self.subTest(kind.__name__):
                client: Any = kind(self.server.url, ssl_context=self.trusting("client"))
                for _ in range(3):
                    client.limiter("openai").wait()
                client.close()
        self.assertEqual(self.server.connections, 2)

    def test_a_client_certificate_that_is_not_trusted(self) -> None:
        for kind in (Fleetpace, Facade):
            for certificate in ("server", None):
                with self.subTest(kind.__name__, certificate=certificate):
                    client: Any = kind(self.server.url, ssl_context=self.trusting(certificate), patience=0.1)
                    with self.assertRaises(FleetpaceError):
                        client.limiter("openai").wait()
                    client.close()

    def test_a_server_that_is_not_trusted_is_no_server_that_is_away(self) -> None:
        for kind in (Fleetpace, Facade):
            with self.subTest(kind.__name__):
                client: Any = kind(self.server.url)
                with self.assertRaisesRegex(FleetpaceError, "certificate") as caught:
                    client.limiter("openai").wait()
                self.assertNotIsInstance(caught.exception, Unavailable)
                client.close()


if __name__ == "__main__":
    unittest.main()
