"""By TCP only who has a certificate of the right authority is heard, and it says what its owner may do."""
import os
import signal
import subprocess

import client
import conftest
import grpc
import pytest


REVOKES = """[ca]
default_ca = own
[own]
database = index.txt
crlnumber = crlnumber
default_md = sha256
default_crl_days = 2
"""


class Authority:
    """A certificate authority of openssl's."""

    def __init__(self, directory, name):
        self.directory = directory
        self.name = name
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def run(self, *words):
        subprocess.run(["openssl", *words], cwd=self.directory, check=True, capture_output=True)

    def revoke(self, *certificates, out="crl.pem"):
        """The file with the list of all that were revoked so far."""
        for name, text in (("index.txt", ""), ("crlnumber", "01\n"), (f"{self.name}.cnf", REVOKES)):
            if not (self.directory / name).exists():
                (self.directory / name).write_text(text)
        words = ("ca", "-config", f"{self.name}.cnf", "-cert", f"{self.name}.pem", "-keyfile", f"{self.name}.key")
        for certificate in certificates:
            self.run(*words, "-revoke", certificate)
        self.run(*words, "-gencrl", "-out", out)
        return self.directory / out

    def file(self, suffix):
        return self.directory / f"{self.name}.{suffix}"

    def issue(self, name, alternative):
        """The certificate's file and its key's."""
        self.run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.directory / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        self.run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key",
                 "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        return self.directory / f"{name}.pem", self.directory / f"{name}.key"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "ca")


@pytest.fixture
def address(launcherd, authority):
    certificate, key = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                       authority.file("pem"), "--i-know-jobs-run-as-root", waits=False)
    return daemon.line_with("serving").split("127.0.0.1:")[1].split()[0]


def client_of(stubs, authority, address, identity):
    certificate, key = (identity[0].read_bytes(), identity[1].read_bytes()) if identity else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.file("pem").read_bytes(), key, certificate)
    return client.Client(stubs, grpc.secure_channel(f"localhost:{address}", credentials))


def code_of(call, *arguments):
    try:
        call(*arguments, timeout=20)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("role", "may"), [("watch", 1), ("submit", 2), ("admin", 3), ("other", 0), (None, 0)])
def test_a_role_allows_what_it_says(stubs, authority, address, role, may):
    name = f"URI:muster://role/{role}" if role else "DNS:somebody"
    api = client_of(stubs, authority, address, authority.issue("peer", name))
    launcher = stubs.launcher
    codes = [code_of(api.api.GetCapabilities, launcher.GetCapabilitiesRequest()),
             code_of(api.api.Submit, api.request(["true"])),
             code_of(api.api.ResumeHost, launcher.ResumeHostRequest(host="localhost"))]
    assert codes == [grpc.StatusCode.OK] * may + [grpc.StatusCode.PERMISSION_DENIED] * (3 - may)
    notifies = code_of(api.api.Submit, api.request(["true"], request_notify=b"true"))
    assert notifies == (grpc.StatusCode.OK if may == 3 else grpc.StatusCode.PERMISSION_DENIED), "it runs beside the keys"
    watched = code_of(lambda request, timeout: list(api.api.Watch(request, timeout=timeout)),
                      launcher.WatchRequest(job="aaaaaaaa"))
    assert watched == (grpc.StatusCode.NOT_FOUND if may else grpc.StatusCode.PERMISSION_DENIED)
    command = code_of(lambda request, timeout: list(api.api.Exec(iter([request]), timeout=timeout)),
                      launcher.ExecRequest(job="aaaaaaaa", command=[b"true"]))
    assert command == (grpc.StatusCode.NOT_FOUND if may >= 2 else grpc.StatusCode.PERMISSION_DENIED)


def test_strangers_are_not_heard(stubs, authority, address, tmp_path):
    (tmp_path / "else").mkdir()
    other = Authority(tmp_path / "else", "other")
    for identity in (None, other.issue("peer", "URI:muster://role/admin")):
        api = client_of(stubs, authority, address, identity)
        assert code_of(api.api.GetCapabilities, stubs.launcher.GetCapabilitiesRequest()) == grpc.StatusCode.UNAVAILABLE
    plain = client.Client(stubs, grpc.insecure_channel(f"localhost:{address}"))
    assert code_of(plain.api.GetCapabilities, stubs.launcher.GetCapabilitiesRequest()) == grpc.StatusCode.UNAVAILABLE


def test_a_port_that_is_taken_is_told(launcherd, authority, address, tmp_path):
    (tmp_path / "second").mkdir()
    second = launcherd("--listen", f"127.0.0.1:{address}", "--tls-cert", tmp_path / "server.pem", "--tls-key",
                       tmp_path / "server.key", "--client-ca", authority.file("pem"), "--i-know-jobs-run-as-root",
                       waits=False, directory=tmp_path / "second")
    assert second.process.wait(timeout=60) == 125
    second.line_with(f"cannot listen at 127.0.0.1:{address}")


def test_tcp_needs_its_files(launcherd, authority):
    certificate, key = authority.issue("server", "DNS:localhost")
    without = launcherd("--listen", "127.0.0.1:0", waits=False)
    assert without.process.wait(timeout=60) == 2
    without.line_with("needs --tls-cert, --tls-key and --client-ca")
    missing = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                        "/nonexistent", "--i-know-jobs-run-as-root", waits=False)
    assert missing.process.wait(timeout=60) == 2
    missing.line_with("/nonexistent")


def test_a_private_key_that_others_may_read_is_refused(launcherd, authority, tmp_path):
    certificate, key = authority.issue("server", "DNS:localhost")
    arguments = ("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                 authority.file("pem"), "--i-know-jobs-run-as-root")
    key.chmod(0o644)
    refused = launcherd(*arguments, waits=False)
    assert refused.process.wait(timeout=60) == 2
    refused.line_with("server.key is a private key that other users may read or write: run chmod 600 on it")
    asked = subprocess.run([conftest.BIN / "muster", "jobs", "--launcher", "localhost:1", "--tls-cert", certificate,
                            "--tls-key", key, "--tls-ca", authority.file("pem")], capture_output=True, text=True)
    assert asked.returncode != 0
    assert "server.key is a private key that other users may read or write: run chmod 600 on it" in asked.stderr
    key.chmod(0o600)
    os.chown(key, 65534, -1)
    foreign = launcherd(*arguments, waits=False)
    assert foreign.process.wait(timeout=60) == 2
    foreign.line_with("server.key belongs to another user")


def test_certificates_are_read_again_at_a_hangup(launcherd, stubs, authority, tmp_path):
    certificate, key = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    clients = tmp_path / "clients.pem"
    clients.write_bytes(authority.file("pem").read_bytes())
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca", clients,
                       "--i-know-jobs-run-as-root", waits=False)
    port = daemon.line_with("serving").split("127.0.0.1:")[1].split()[0]
    (tmp_path / "next").mkdir()
    following = Authority(tmp_path / "next", "next")
    old = authority.issue("old", "URI:muster://role/watch")
    new = following.issue("new", "URI:muster://role/watch")

    def code(identity):
        # Each by a connection of its own, which trusts the authority of the server.
        api = client_of(stubs, authority, port, identity)
        try:
            return code_of(api.api.GetCapabilities, stubs.launcher.GetCapabilitiesRequest())
        finally:
            api.channel.close()

    assert (code(old), code(new)) == (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
    clients.write_text("no certificate")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.line_with("the certificates were not changed: the authority is not a certificate in PEM format")
    assert code(old) == grpc.StatusCode.OK
    clients.write_bytes(following.file("pem").read_bytes())
    daemon.process.send_signal(signal.SIGHUP)
    daemon.line_with("certificates were read again")
    assert (code(old), code(new)) == (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK)


def test_a_revoked_certificate_is_refused(launcherd, stubs, authority, tmp_path):
    certificate, key = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    first, second, other = (authority.issue(name, "URI:muster://role/watch") for name in ("first", "second", "other"))
    revoked = authority.revoke(first[0])
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                       authority.file("pem"), "--client-crl", revoked, "--i-know-jobs-run-as-root", waits=False)
    port = daemon.line_with("serving").split("127.0.0.1:")[1].split()[0]
    clients = [client_of(stubs, authority, port, identity) for identity in (first, second, other)]

    def codes():
        """On the connections that are there."""
        return [code_of(api.api.GetCapabilities, stubs.launcher.GetCapabilitiesRequest()) for api in clients]

    ok, denied = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
    assert codes() == [denied, ok, ok]
    asked = subprocess.run([conftest.BIN / "muster", "jobs", "--launcher", f"localhost:{port}", "--tls-cert", first[0],
                            "--tls-key", first[1], "--tls-ca", authority.file("pem")], capture_output=True, text=True)
    assert asked.returncode != 0
    assert "this certificate is revoked (launcherd's --client-crl): ask its certificate authority for a new one" in asked.stderr
    # A list that cannot be used changes nothing.
    whole = authority.revoke(second[0], out="next.pem").read_text()
    (tmp_path / "else").mkdir()
    foreign = Authority(tmp_path / "else", "other").revoke().read_text()
    for text, reason in ((whole[:200], "is not in PEM format"), ("", "crl.pem is empty"),
                         (foreign, "is not signed by an authority of --client-ca")):
        revoked.write_text(text)
        daemon.process.send_signal(signal.SIGHUP)
        assert reason in daemon.line_with("the certificates were not changed: ")
        assert codes() == [denied, ok, ok]
    revoked.write_text(whole)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.line_with("certificates were read again")
    assert codes() == [denied, denied, ok]


def test_a_list_of_revoked_certificates_needs_its_authority(launcherd, authority, tmp_path):
    certificate, key = authority.issue("server", "DNS:localhost")
    (tmp_path / "else").mkdir()
    foreign = Authority(tmp_path / "else", "other").revoke()
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                       authority.file("pem"), "--client-crl", foreign, "--i-know-jobs-run-as-root", waits=False)
    assert daemon.process.wait(timeout=60) != 0
    daemon.line_with("the list of revoked certificates is not signed by an authority of --client-ca")
