"""The files for compose and Kubernetes, held against the server and the image."""

import re
import subprocess
import urllib.request

import pytest
import yaml

from packages import SOURCES
from siltstone import BINARY, clean_environment

COMPOSE = yaml.safe_load((SOURCES / "compose.yaml").read_text())
KUBERNETES = {document["kind"]: document for document in yaml.safe_load_all((SOURCES / "kubernetes.yaml").read_text())}


def version():
    return subprocess.run([BINARY, "--version"], capture_output=True, text=True).stdout.split()[1]


def get(server, path):
    return urllib.request.urlopen(f"{server.url}{path}")


def test_compose_starts_the_image_as_it_is_configured(image):
    service = COMPOSE["services"]["siltstone"]
    assert service["image"] == f"siltstone:{version()}"
    assert service["command"].split() == image.config["Cmd"]
    [port] = image.config["ExposedPorts"]
    assert service["ports"] == [f"{port.split('/')[0]}:{port.split('/')[0]}"]
    [volume] = image.config["Volumes"]
    assert [mount.split(":")[1] for mount in service["volumes"]] == [volume]
    assert [mount.split(":")[0] for mount in service["volumes"]] == list(COMPOSE["volumes"])
    assert service["read_only"] is True


def test_the_health_check_of_compose_is_that_of_the_image(image):
    check, own = COMPOSE["services"]["siltstone"]["healthcheck"], image.config["Healthcheck"]
    assert check["test"] == own["Test"]
    assert check["retries"] == own["Retries"]
    seconds = {name: int(check[name].removesuffix("s")) * 10**9 for name in ("interval", "timeout", "start_period")}
    assert list(seconds.values()) == [own["Interval"], own["Timeout"], own["StartPeriod"]]


def test_the_file_for_two_hosts_is_added_to_that_of_one(tmp_path):
    """Its command is one that the server takes, and its health check asks whether the process lives: a standby is no failure."""
    [(name, service)] = yaml.safe_load((SOURCES / "compose.standby.yaml").read_text())["services"].items()
    assert name in COMPOSE["services"] and set(service) <= set(COMPOSE["services"][name])
    words = service["command"].split()
    assert words[:2] == COMPOSE["services"][name]["command"].split()
    [mount] = service["volumes"]
    assert mount.split(":")[1] == words[words.index("--config") + 1]
    config = tmp_path / "siltstone.toml"
    config.write_text("ship = 'sync'\n")
    arguments = [word.replace("/data", str(tmp_path / "data")).replace(mount.split(":")[1], str(config)) for word in words]
    done = subprocess.run([BINARY, *arguments], env=clean_environment(tmp_path), capture_output=True, text=True)
    # All that it lacks is the section.
    assert done.returncode == 2 and "--standby: name a remote" in done.stderr, done.stderr
    assert service["healthcheck"]["test"][-1].endswith("/-/health")


@pytest.mark.parametrize("stop, place", [
    (lambda: int(COMPOSE["services"]["siltstone"]["stop_grace_period"].removesuffix("s")), "compose"),
    (lambda: KUBERNETES["StatefulSet"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], "Kubernetes"),
])
def test_the_server_is_not_killed_while_it_may_finish_requests(stop, place):
    help_text = subprocess.run([BINARY, "--help"], capture_output=True, text=True).stdout
    after = help_text.split("--shutdown-timeout")[1]
    assert stop() > int(re.search(r"\[default: (\d+)s\]", after).group(1)), place


def pod():
    return KUBERNETES["StatefulSet"]["spec"]["template"]


def container():
    [container] = pod()["spec"]["containers"]
    return container


def test_the_kubernetes_objects_refer_to_each_other():
    assert set(KUBERNETES) == {"Secret", "Service", "StatefulSet"}
    spec, labels = KUBERNETES["StatefulSet"]["spec"], pod()["metadata"]["labels"]
    assert labels.items() >= spec["selector"]["matchLabels"].items()
    assert labels.items() >= KUBERNETES["Service"]["spec"]["selector"].items()
    assert spec["serviceName"] == KUBERNETES["Service"]["metadata"]["name"]
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert {port["targetPort"] for port in KUBERNETES["Service"]["spec"]["ports"]} <= set(ports)
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert [mount["name"] for mount in container()["volumeMounts"]] == list(claims)
    for variable in container()["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["name"] == KUBERNETES["Secret"]["metadata"]["name"]
        assert reference["key"] in KUBERNETES["Secret"]["stringData"]


def test_the_pod_runs_the_image_as_it_is_configured(image):
    assert container()["image"] == f"siltstone:{version()}"
    assert container()["args"][:2] == image.config["Cmd"]
    [port] = image.config["ExposedPorts"]
    assert [f"{p['containerPort']}/tcp" for p in container()["ports"]] == [port]
    [volume] = image.config["Volumes"]
    assert [mount["mountPath"] for mount in container()["volumeMounts"]] == [volume]
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod()["spec"]["securityContext"]["runAsNonRoot"] is True


def test_the_secret_of_the_manifest_has_no_keys_that_everybody_knows(tmp_path):
    """A manifest that is applied unread gets keys of its own."""
    keys = KUBERNETES["Secret"]["stringData"]
    variables = {v["name"]: keys[v["valueFrom"]["secretKeyRef"]["key"]] for v in container()["env"]}
    arguments = [argument.replace("/data", str(tmp_path / "data")) for argument in container()["args"]]
    with open(tmp_path / "stderr", "w") as stderr:
        server = subprocess.Popen(
            [BINARY, *arguments, "--listen", "127.0.0.1:0"], env=clean_environment(tmp_path, **variables),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )
    assert server.stdout.readline().startswith("listening on"), (tmp_path / "stderr").read_text()
    server.kill()
    server.wait()
    server.stdout.close()
    said = (tmp_path / "stderr").read_text()
    assert f"Its secret key is in {tmp_path}/data/users.toml" in said


def test_every_probe_is_answered(server):
    names = {port["name"] for port in container()["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        request = container()[probe]["httpGet"]
        assert request["port"] in names
        assert get(server, request["path"]).status == 200, probe


def test_prometheus_is_led_to_the_metrics(own_server):
    notes = pod()["metadata"]["annotations"]
    assert int(notes["prometheus.io/port"]) in [port["containerPort"] for port in container()["ports"]]
    assert notes["prometheus.io/scrape"] == "true"
    arguments = [argument for argument in container()["args"] if argument not in ("server", "/data")]
    server = own_server(*arguments).start()
    # As from another host: a proxy's header takes the privilege of the loopback address away.
    request = urllib.request.Request(f"{server.url}{notes['prometheus.io/path']}", headers={"Via": "1.1 other"})
    assert b"siltstone_requests_total" in urllib.request.urlopen(request).read()
