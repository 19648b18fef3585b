"""Writes the bill of materials of the programs, as CycloneDX 1.5: tools/package/sbom.py TRIPLE >FILE

What is linked into them, and what ran to build them, for that target: `cargo metadata` with the checksums of Cargo.lock. The same
sources give the same bytes: the time in it is SOURCE_DATE_EPOCH."""

import datetime
import json
import os
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def metadata(target):
    """What cargo knows of all packages and of the edges between them, without asking the network for newer ones."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def edges(node, kinds):
    """The packages that this one needs by a dependency of these kinds: None in the program, "build" to build it, never "dev"."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] in kinds for kind in dep["dep_kinds"])]


def reached(root, nodes, kinds):
    """All packages that the root needs, directly or not, by dependencies of these kinds."""
    found, left = {root}, [root]
    while left:
        for package in edges(nodes[left.pop()], kinds):
            if package not in found:
                found.add(package)
                left.append(package)
    return found


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums, is_linked):
    """A crate. Old manifests separate licences by a slash, which means "or"."""
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if is_linked else "excluded",
        "purl": purl(package),
    }
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        made["licenses"] = [{"expression": package["license"].replace(" / ", "/").replace("/", " OR ")}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def bill(target):
    told = metadata(target)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    root = told["resolve"]["root"]
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in locked}
    linked = reached(root, nodes, {None})
    all_of_them = reached(root, nodes, {None, "build"})
    crates = sorted((packages[package] for package in all_of_them - {root}), key=purl)
    sources = json.dumps([purl(packages[root]), target, sorted(filter(None, checksums.values()))])
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, sources)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": purl(packages[root]),
                "name": packages[root]["name"],
                "version": packages[root]["version"],
                "licenses": [{"license": {"id": packages[root]["license"]}}],
                "purl": purl(packages[root]),
            },
            "properties": [{"name": "siltstone:target", "value": target}],
        },
        "components": [component(crate, checksums, crate["id"] in linked) for crate in crates],
        "dependencies": [
            {"ref": purl(packages[each]), "dependsOn": sorted({purl(packages[to]) for to in edges(nodes[each], {None, "build"})})}
            for each in sorted(all_of_them, key=lambda package: purl(packages[package]))
        ],
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(json.dumps(bill(sys.argv[1]), indent=1))
