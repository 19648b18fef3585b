"""Grafana's dashboard, held against the metrics of a server and the guide."""

import json
import re

from metrics import DASHBOARD, ONLY_WITH_TLS, expressions, families, family
from siltstone import ROOT


def test_the_dashboard_shows_every_metric_and_no_other(own_server):
    known = families(own_server().start())
    shown = {family(name) for expr in expressions() for name in re.findall(r"\bsiltstone_\w+", expr)}
    assert shown == set(known) | ONLY_WITH_TLS


def labels():
    """The labels of each metric. The guide has them all, also where a fresh server has no sample; a test holds it against the code."""
    rows = re.findall(r"^\| `(siltstone_\w+)` \| \w+ \| ([^|]*)\|", (ROOT / "src/guide/metrics.md").read_text(), re.MULTILINE)
    return {name: {label.strip() for label in names.split(",") if label.strip()} for name, names in rows}


def test_the_dashboard_groups_and_selects_by_labels_that_exist(own_server):
    known = labels()
    for name, shown in families(own_server().start()).items():
        assert shown - {"le"} <= known[name], name
        known[name] |= shown
    for expr in expressions():
        given = set().union(*(known[family(name)] for name in re.findall(r"\bsiltstone_\w+", expr))) | {"instance"}
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expr) for label in group.split(",")}
        selected = set(re.findall(r"[{,]\s*(\w+)\s*=", expr))
        assert grouped | selected <= given | {"le"}, expr
        assert expr.count("(") == expr.count(")") and expr.count("{") == expr.count("}"), expr


def test_the_panels_have_ids_and_places_of_their_own_and_known_variables():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(panels)))
    assert used == declared
