"""PutBucketReplication: two servers with mirrors to each other, which are killed; boto3 sets the rules and reads the status."""

import time

import pytest
from botocore.exceptions import ClientError
from siltstone import ACCESS_KEY, SECRET_KEY

STATUS = "ReplicationStatus"


def until(condition, told=lambda: "", seconds=90):
    """Waits for a condition that comes in its own time; the bound only ends a test that would never end."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def rule(name, priority, filters, markers="Enabled", mirror="away"):
    return {
        "ID": name,
        "Priority": priority,
        "Filter": filters,
        "Status": "Enabled",
        "DeleteMarkerReplication": {"Status": markers},
        "Destination": {"Bucket": f"arn:aws:s3:::{mirror}"},
    }


def replicate(s3, *rules):
    s3.put_bucket_replication(Bucket="data", ReplicationConfiguration={"Role": "none", "Rules": list(rules)})


def pair(own_server, tmp_path):
    """Two servers, each with a mirror to the other; their bucket keeps versions."""
    servers = [own_server("--config", str(tmp_path / f"{at}.toml"), "--bucket", "data") for at in range(2)]
    for at, server in enumerate(servers):
        lines = ["[[mirror]]", "name = 'away'", f"endpoint = '{servers[1 - at].url}'", "region = 'eu'", "replication = true"]
        lines += [f"access_key = '{ACCESS_KEY}'", f"secret_key = '{SECRET_KEY}'"]
        (tmp_path / f"{at}.toml").write_text("\n".join(lines) + "\n")
    for server in servers:
        server.start().client().put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    return servers


def versions(s3):
    """All versions by key, oldest first; None for a delete marker.

    The ids tell the order: they begin with the microsecond, and two versions can have one millisecond.
    """
    listed = s3.list_object_versions(Bucket="data")
    found = [(it["Key"], it["VersionId"], it["ETag"]) for it in listed.get("Versions", [])]
    found += [(it["Key"], it["VersionId"], None) for it in listed.get("DeleteMarkers", [])]
    by_key = {}
    for key, _, tag in sorted(found, key=lambda it: it[:2]):
        by_key.setdefault(key, []).append(tag)
    return by_key


def status(s3, key, **more):
    return s3.head_object(Bucket="data", Key=key, **more).get(STATUS)


def test_rules_select_what_is_sent_and_the_status_is_true_in_an_outage(own_server, tmp_path):
    here, there = pair(own_server, tmp_path)
    s3, away = here.client(), there.client()
    with pytest.raises(ClientError) as missing:
        s3.get_bucket_replication(Bucket="data")
    assert missing.value.response["Error"]["Code"] == "ReplicationConfigurationNotFoundError"
    with pytest.raises(ClientError) as unknown:
        replicate(s3, rule("a", 1, {}, mirror="other"))
    assert unknown.value.response["Error"]["Code"] == "InvalidRequest"
    s3.put_object(Bucket="data", Key="in/before", Body=b"before")
    both = {"And": {"Prefix": "tagged/", "Tags": [{"Key": "send", "Value": "yes"}]}}
    rules = [rule("in", 1, {"Prefix": "in/"}), rule("tags", 2, both, "Disabled"), rule("keep", 3, {"Prefix": "in/keep"}, "Disabled")]
    replicate(s3, *rules)
    assert s3.get_bucket_replication(Bucket="data")["ReplicationConfiguration"]["Rules"] == rules
    with pytest.raises(ClientError) as state:
        s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Suspended"})
    assert state.value.response["Error"]["Code"] == "InvalidBucketState"
    s3.put_object(Bucket="data", Key="in/a", Body=b"one")
    s3.put_object(Bucket="data", Key="in/keep", Body=b"kept")
    s3.put_object(Bucket="data", Key="out", Body=b"out")
    s3.put_object(Bucket="data", Key="tagged/yes", Body=b"yes", Tagging="send=yes")
    s3.put_object(Bucket="data", Key="tagged/no", Body=b"no", Tagging="send=no")
    sent = ["in/a", "in/before", "in/keep", "tagged/yes"]
    until(lambda: [status(s3, key) for key in sent] == ["COMPLETED"] * 4, here.log.read_text)
    assert sorted(versions(away)) == sent and status(s3, "out") is None and status(s3, "tagged/no") is None
    assert status(away, "in/a") == "REPLICA"

    there.kill()
    later = s3.put_object(Bucket="data", Key="in/a", Body=b"two")["VersionId"]
    s3.delete_object(Bucket="data", Key="in/keep")
    s3.delete_object(Bucket="data", Key="in/before")
    time.sleep(1)
    assert status(s3, "in/a") == "PENDING" and status(s3, "in/a", VersionId=later) == "PENDING"
    assert status(s3, "tagged/yes") == "COMPLETED"
    here.kill()
    here.start()
    assert status(s3, "in/a") == "PENDING"
    there.start()
    until(lambda: status(s3, "in/a") == "COMPLETED", here.log.read_text)
    until(lambda: len(versions(away)["in/before"]) == 2, here.log.read_text)
    assert versions(away)["in/a"] == versions(s3)["in/a"] and versions(away)["in/keep"][-1] is not None

    s3.delete_bucket_replication(Bucket="data")
    s3.put_object(Bucket="data", Key="in/after", Body=b"after")
    assert status(s3, "in/after") is None


def test_two_stores_that_replicate_to_each_other_rest_and_agree(own_server, tmp_path):
    servers = pair(own_server, tmp_path)
    clients = [server.client() for server in servers]
    for s3 in clients:
        replicate(s3, rule("all", 1, {}))
    # A mirror that finds objects there first would wait for the operator.
    for server in servers:
        until(lambda: "has joined" in server.log.read_text(), server.log.read_text)
    for turn in range(12):
        s3 = clients[turn % 2]
        s3.put_object(Bucket="data", Key=f"key-{turn % 4}-of-{turn % 2}", Body=b"%d" % turn)
        if turn % 3 == 2:
            s3.delete_object(Bucket="data", Key=f"key-{turn % 4}-of-{turn % 2}")
        if turn in (4, 9):
            servers[turn % 2].kill()
            servers[turn % 2].start()

    def told():
        return f"{[versions(s3) for s3 in clients]}"

    until(lambda: versions(clients[0]) == versions(clients[1]), told)
    own = {key: tags for key, tags in versions(clients[0]).items()}
    assert sum(len(tags) for tags in own.values()) == 16
    # They rest: later changes go around, and nothing else comes with them.
    clients[0].put_object(Bucket="data", Key="last", Body=b"a")
    until(lambda: "last" in versions(clients[1]), told)
    clients[1].put_object(Bucket="data", Key="last", Body=b"b")
    until(lambda: len(versions(clients[0])["last"]) == 2, told)
    time.sleep(2)
    assert versions(clients[0]) == versions(clients[1])
    assert {key: tags for key, tags in versions(clients[0]).items() if key != "last"} == own
    assert status(clients[0], "last") == "REPLICA"
