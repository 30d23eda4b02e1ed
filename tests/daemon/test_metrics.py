"""/metrics: Prometheus' own tools read it, and a real Prometheus scrapes it as another user.  The dashboard and the alert
rules of packaging/grafana are asked of that Prometheus."""
import json
import math
import os
import pathlib
import re
import signal
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import client
import http_user
import pytest

GRAFANA = client.ROOT / "packaging/grafana"
NOBODY = 65534
installed = pytest.mark.skipif(shutil.which("prometheus") is None, reason="install prometheus")


def expressions():
    """The queries of the dashboard, as Grafana would send them."""
    dashboard = json.loads((GRAFANA / "launcherd.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


def certificate(directory):
    """The paths of a certificate for 127.0.0.1 and its key."""
    files = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=launcherd", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", files[1],
                    "-out", files[0]], check=True, capture_output=True)
    files[1].chmod(0o600)
    return files


def served(daemon, *arguments):
    """(launcherd, URL of --metrics, token)"""
    one = daemon("--metrics", "127.0.0.1:0", *arguments, waits=False)
    url = re.search(r"https?://127\.0\.0\.1:\d+/metrics", one.line_with("/metrics")).group(0)
    return one, url, (one.state / "metrics-token").read_text().strip()


def curl(url, *words, token=None, user=None):
    """(status, text); the token goes by stdin, which another user can read, too."""
    header = ["-H", "@-"] if token else []
    result = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", *header, *words, url], capture_output=True, text=True,
                            input=f"Authorization: Bearer {token}\n", timeout=http_user.PATIENCE, user=user, cwd="/")
    text, _, status = result.stdout.rpartition("\n")
    return int(status), text


class Prometheus:
    """A Prometheus of its own, as another user if that is possible, which scrapes the launcherd every second."""

    def __init__(self, url, token, authority=None):
        # Not below pytest's folders, which it keeps closed to other users.
        directory = self.directory = pathlib.Path(tempfile.mkdtemp(prefix="muster-prometheus-"))
        self.user = NOBODY if os.geteuid() == 0 else None
        secret = directory / "token"
        secret.touch(mode=0o600)
        secret.write_text(token)
        parsed = urllib.parse.urlparse(url)
        if authority:
            shutil.copy(authority, directory / "ca.pem")
        tls = f"    tls_config: {{ca_file: {directory / 'ca.pem'}}}\n" if authority else ""
        config = directory / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [alerts.yaml]\n"
                          f"scrape_configs:\n  - job_name: muster\n    scheme: {parsed.scheme}\n{tls}"
                          f"    authorization: {{credentials_file: {secret}}}\n"
                          f"    static_configs: [{{targets: ['{parsed.netloc}']}}]\n")
        shutil.copy(GRAFANA / "alerts.yaml", directory)
        if self.user is not None:
            for path in (directory, *directory.iterdir()):
                os.chown(path, self.user, self.user)
        self.log = (directory / "log").open("w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
             "--web.listen-address=127.0.0.1:0"], stderr=self.log, stdin=subprocess.DEVNULL, user=self.user, cwd="/")
        self.port = None

    def until(self, condition, what):
        """Asks every 0.2 s, as long as the test may last: Prometheus has no way to wait for a value."""
        ends = time.monotonic() + http_user.PATIENCE
        while time.monotonic() < ends:
            assert self.process.poll() is None, self.said()
            if result := condition():
                return result
            time.sleep(0.2)
        raise AssertionError(f"not in time: {what()}")

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def has_port(self):
        found = re.search(r'msg="Listening on" address=127\.0\.0\.1:(\d+)', self.said())
        self.port = self.port or (found and int(found.group(1)))
        return self.port

    def query(self, expression):
        """The values, without those that are no number; none while it starts."""
        self.until(self.has_port, self.said)
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=http_user.PATIENCE) as answer:
                results = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            assert error.code == 503, error
            return []
        return [value for value in (float(result["value"][1]) for result in results) if not math.isnan(value)]

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=http_user.PATIENCE)
        self.log.close()
        shutil.rmtree(self.directory)


@pytest.fixture
def prometheus():
    started = []

    def start(url, token, authority=None):
        started.append(Prometheus(url, token, authority))
        return started[0]
    yield start
    for one in started:
        one.end()


def test_promtool_accepts_the_rules():
    if shutil.which("promtool") is None:
        pytest.skip("install prometheus")
    for words in (["check", "rules", GRAFANA / "alerts.yaml"],
                  ["test", "rules", pathlib.Path(__file__).with_name("alerts_test.yaml")]):
        judged = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=http_user.PATIENCE)
        assert judged.returncode == 0, judged


def test_the_token_opens_the_metrics_to_another_user(launcherd):
    one, url, token = served(launcherd)
    assert (one.state / "metrics-token").stat().st_mode & 0o777 == 0o600
    other = NOBODY if os.geteuid() == 0 else None
    status, text = curl(url, token=token, user=other)
    assert status == 200 and "# TYPE muster_build_info gauge\n" in text
    assert curl(url, user=other)[0] == 401
    assert curl(url, token=token[::-1], user=other)[0] == 401
    base = url.removesuffix("/metrics")
    for path in ("/", "/api/v1/jobs", "/api/jobs", "/metrics/"):
        assert curl(base + path, token=token)[0] == 404, path
    assert curl(base + "/api/v1/jobs", "-X", "POST", token=token)[0] == 404
    assert curl(url, "-X", "POST", token=token)[0] == 405
    if shutil.which("promtool"):
        judged = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                                timeout=http_user.PATIENCE)
        assert judged.returncode == 0 and not judged.stdout + judged.stderr, judged


def test_a_token_of_metrics_writes_nothing(launcherd):
    daemon = launcherd("--metrics", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-write", waits=False)
    user = http_user.HttpUser(daemon)
    token = (daemon.state / "metrics-token").read_text().strip()
    assert token != user.token
    assert user.raw("POST", "/api/v1/cleanup", {"dry_run": True}, token=token)[0] == 401


@installed
def test_every_query_of_the_dashboard_returns_data(launcherd, prometheus):
    one, url, token = served(launcherd)
    watching = prometheus(url, token)
    watching.until(lambda: watching.query("muster_build_info"), watching.said)
    api = one.client()
    running = api.submit(["sleep", "1000"], size=2)
    missing = dict.fromkeys(expressions())

    def all_answered():
        # A rate needs jobs between two scrapes.
        api.wait(api.submit(["true"]))
        for expression in [each for each in missing if watching.query(each)]:
            del missing[expression]
        return not missing

    watching.until(all_answered, lambda: (list(missing), watching.said()))
    assert watching.query('muster_jobs{state="running"}') == [1.0] and watching.query("muster_ranks") == [2.0]
    assert watching.query("sum(muster_host_used_slots)") == [2.0]
    assert watching.query('up{job="muster"}') == [1.0]
    api.kill(running, at_once=True)
    api.wait(running)
    watching.until(lambda: watching.query('muster_jobs_ended_total{state="killed"}') == [1.0], watching.said)


@installed
def test_prometheus_scrapes_by_tls(launcherd, prometheus, tmp_path):
    cert, key = certificate(tmp_path)
    _, url, token = served(launcherd, "--tls-cert", str(cert), "--tls-key", str(key))
    assert url.startswith("https://")
    watching = prometheus(url, token, cert)
    watching.until(lambda: watching.query('up{job="muster"}') == [1.0], watching.said)
    assert curl(url, "--cacert", str(cert))[0] == 401
    assert curl(url)[0] == 0  # without the authority
    assert curl(url.replace("https", "http"))[0] in (0, 400)


def test_other_machines_need_tls(launcherd):
    daemon = launcherd("--metrics", "0.0.0.0:0", waits=False)
    assert "other machines get metrics by TLS only" in daemon.line_with("--metrics")
    assert daemon.process.wait(timeout=http_user.PATIENCE) == 2


def test_sighup_renews_the_certificate(launcherd, tmp_path):
    cert, key = certificate(tmp_path)
    old = cert.with_name("old.pem")
    old.write_bytes(cert.read_bytes())
    daemon, url, token = served(launcherd, "--tls-cert", str(cert), "--tls-key", str(key))
    assert curl(url, "--cacert", str(old), token=token)[0] == 200
    certificate(tmp_path)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.line_with("certificates were read again")
    assert curl(url, "--cacert", str(cert), token=token)[0] == 200
    assert curl(url, "--cacert", str(old), token=token)[0] == 0  # the server proves itself by the new one
    new = cert.with_name("new.pem")
    new.write_bytes(cert.read_bytes())
    cert.write_text("broken")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.line_with("the certificates were not changed")
    assert curl(url, "--cacert", str(new), token=token)[0] == 200
