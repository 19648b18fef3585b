"""The metrics of a server, and the expressions that the dashboard makes of them."""

import json
import re
import urllib.request

from siltstone import ROOT

PACKAGE_SOURCES = ROOT / "tools/package"
DASHBOARD = json.loads((PACKAGE_SOURCES / "grafana.json").read_text())


def get(server, path):
    return urllib.request.urlopen(f"{server.url}{path}")


# Metrics that a server without a certificate lacks; the tests of its command line hold them.
ONLY_WITH_TLS = {"siltstone_tls_certificate_expiry_timestamp_seconds"}


def family(name):
    """The metric of a sample. Those of histograms have several kinds of samples."""
    return re.sub(r"_(bucket|sum|count)$", "", name) if re.search(r"_(duration_seconds|wait_seconds|mutations)_", name) else name


def families(server):
    """The metrics of a server that was used, each with the labels of its samples."""
    server.client().create_bucket(Bucket="photos")
    server.client().put_object(Bucket="photos", Key="cat", Body=b"meow")
    found = {}
    for line in get(server, "/-/metrics").read().decode().splitlines():
        if line.startswith("# TYPE"):
            found[line.split()[2]] = set()
        elif not line.startswith("#"):
            name = family(re.match(r"\w+", line).group())
            found[name] |= set(re.findall(r'(\w+)="', line))
    return found


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
