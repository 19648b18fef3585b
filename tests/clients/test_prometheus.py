"""Metrics, alert rules and dashboard, held against a real Prometheus that reads a running server."""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from metrics import ONLY_WITH_TLS, PACKAGE_SOURCES, expressions, families, family, get
from needs import needs
from siltstone import ROOT, free_port

ALERTS = PACKAGE_SOURCES / "alerts.yaml"
# The series that raise each of them, and those that do not.
SERIES = [ROOT / "tests/clients/alerts_test.yaml", ROOT / "tests/clients/alerts_days_test.yaml"]
# After that long Prometheus has failed; nothing passes because it was fast.
PATIENCE_SECONDS = 60


def promtool(*arguments, **more):
    needs("promtool")
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr


def alert_expressions():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_the_metrics_follow_the_conventions(own_server):
    server = own_server().start()
    families(server)
    promtool("check", "metrics", input=get(server, "/-/metrics").read().decode())


def test_the_alerts_are_raised_and_only_then(tmp_path):
    shutil.copy(ALERTS, tmp_path)
    promtool("check", "rules", tmp_path / "alerts.yaml")
    promtool("test", "rules", *[shutil.copy(series, tmp_path) for series in SERIES])


def test_each_alert_is_raised_by_a_series():
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    told = "".join(series.read_text() for series in SERIES)
    assert [rule for rule in rules if f'alertname="{rule}"' not in told] == []


def test_the_alerts_name_metrics_that_exist(own_server):
    known = families(own_server().start())
    named = {family(name) for expr in alert_expressions() for name in re.findall(r"\bsiltstone_\w+", expr)}
    assert named <= set(known) | ONLY_WITH_TLS and len(named) >= 8


class Prometheus:
    def __init__(self, home, server, target=None):
        needs("prometheus")
        home.mkdir(exist_ok=True)
        self.port = free_port()
        target = dict(target or {"job_name": "siltstone", "metrics_path": "/-/metrics"})
        target["static_configs"] = [{"targets": [f"127.0.0.1:{server.port}"]}]
        settings = {"global": {"scrape_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": [target]}
        (home / "prometheus.yml").write_text(yaml.safe_dump(settings))
        self.log = open(home / "log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=self.log,
        )

    def query(self, expr):
        query = urllib.parse.urlencode({"query": expr})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}") as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]["result"]

    def wait_for(self, expr):
        for _ in range(PATIENCE_SECONDS * 10):
            try:
                if result := self.query(expr):
                    return result
            except OSError:
                assert self.process.poll() is None, "Prometheus ended"
            time.sleep(0.1)
        pytest.fail(f"{expr} has no result")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def test_a_real_prometheus_reads_the_server_and_answers_every_expression(own_server, tmp_path):
    server = own_server().start()
    families(server)
    prometheus = Prometheus(tmp_path / "prometheus", server)
    try:
        prometheus.wait_for('up{job="siltstone"} == 1')
        [objects] = prometheus.wait_for('siltstone_bucket_objects{bucket="photos", kind="current"}')
        assert objects["value"][1] == "1"
        # A rate takes two samples.
        prometheus.wait_for('rate(siltstone_request_duration_seconds_count{operation="PutObject"}[1m])')
        for expr in expressions():
            prometheus.query(expr.replace("$__rate_interval", "1m").replace("$instance", ".*"))
        for expr in alert_expressions():
            prometheus.query(expr)
    finally:
        prometheus.end()


def test_the_settings_with_a_token_are_accepted():
    promtool("check", "config", "--syntax-only", PACKAGE_SOURCES / "prometheus.yml")


def test_a_real_prometheus_reads_a_server_by_its_token(own_server, tmp_path):
    """The settings as they are, but for TLS and the address."""
    home = tmp_path / "prometheus"
    home.mkdir()
    [target] = yaml.safe_load((PACKAGE_SOURCES / "prometheus.yml").read_text())["scrape_configs"]
    token = home / target["authorization"]["credentials_file"]
    token.write_text("a-token-of-the-test\n")
    server = own_server("--metrics", "off", "--metrics-token-file", str(token)).start()
    prometheus = Prometheus(home, server, {**target, "scheme": "http"})
    try:
        prometheus.wait_for('up{job="siltstone"} == 1')
        prometheus.wait_for("siltstone_build_info")
    finally:
        prometheus.end()
