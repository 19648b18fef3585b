"""Backups that nobody can delete: the requests of Veeam, and restic, with the users of the guide (src/guide/backups.md)."""

import datetime
import re
import subprocess

import pytest

import trees
from siltstone import ACCESS_KEY, REGION, ROOT, SECRET_KEY
from test_objects import refusal
from test_other_clients import FILES, installed, run

GUIDE = (ROOT / "src/guide/backups.md").read_text()
ADMIN = f"""
[[user]]
name = "admin"
access_key = "{ACCESS_KEY}"
secret_key = "{SECRET_KEY}"
allow = [{{ actions = ["*"], resources = ["*"] }}]
"""
DELETED_AT_ONCE = 1_000


def block(language, heading=""):
    """The first block of a language below a heading of the guide."""
    return GUIDE.split(f"\n{heading}\n", 1)[1].split(f"\n```{language}\n", 1)[1].split("```", 1)[0]


USERS = block("toml")
SECRETS = dict(re.findall(r'access_key = "(\w+)"\nsecret_key = "([^"]+)"', USERS))


@pytest.fixture
def guarded(own_server, tmp_path):
    """A server with the users of the guide, and an administrator."""
    users = tmp_path / "users.toml"
    users.write_text(ADMIN + USERS)
    users.chmod(0o600)
    return own_server("--users", str(users)).start()


def client_of(server, access_key):
    return server.client(access_key=access_key, secret_key=SECRETS[access_key])


def in_days(days):
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(days=days)


def shell(server, home, script):
    """Runs commands of the guide as they are printed, with the keys of the administrator where they name none."""
    script = script.replace("http://127.0.0.1:9000", server.url)
    environment = server.aws_environment(home)
    environment.update(RESTIC_PASSWORD="password", RESTIC_REPOSITORY=f"s3:{server.url}/restic/host")
    done = subprocess.run(["sh", "-euc", script], cwd=home, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return done.stdout


def retained(s3, key, days, body=b"block"):
    put = s3.put_object(Bucket="veeam", Key=key, Body=body, ObjectLockMode="COMPLIANCE",
                        ObjectLockRetainUntilDate=in_days(days))
    return put["VersionId"]


@pytest.fixture
def veeam(guarded, tmp_path):
    """A client with the keys of Veeam, and its bucket."""
    shell(guarded, tmp_path, block("sh", "## Veeam"))
    return client_of(guarded, "VEEAM")


def test_veeam_finds_what_it_needs_at_its_set_up(veeam):
    assert "veeam" in [bucket["Name"] for bucket in veeam.list_buckets()["Buckets"]]
    assert veeam.get_bucket_versioning(Bucket="veeam")["Status"] == "Enabled"
    lock = veeam.get_object_lock_configuration(Bucket="veeam")["ObjectLockConfiguration"]
    assert lock == {"ObjectLockEnabled": "Enabled"}, "without a default retention"
    folder = "Veeam/Backup/one/"
    veeam.put_object(Bucket="veeam", Key=folder, Body=b"")
    for number in range(1_100):
        veeam.put_object(Bucket="veeam", Key=f"{folder}blocks/{number:04}", Body=b"x")
    page = veeam.list_objects_v2(Bucket="veeam", Prefix="Veeam/Backup/", Delimiter="/")
    assert [prefix["Prefix"] for prefix in page["CommonPrefixes"]] == [folder]
    assert not page["IsTruncated"], "one page tells all folders, however much is in them"


def test_veeam_retains_each_object_and_extends_what_a_backup_still_needs(veeam):
    version = retained(veeam, "k", 2)
    again = retained(veeam, "k", 2, b"another")
    assert version != again, "a locked key takes new versions"
    named = {"Bucket": "veeam", "Key": "k", "VersionId": version}
    found = veeam.get_object_retention(**named)["Retention"]
    assert found["Mode"] == "COMPLIANCE"
    later = in_days(30)
    veeam.put_object_retention(**named, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": later})
    assert veeam.head_object(**named)["ObjectLockRetainUntilDate"] == later
    for shorter in ({"Mode": "COMPLIANCE", "RetainUntilDate": in_days(1)},
                    {"Mode": "GOVERNANCE", "RetainUntilDate": in_days(60)}):
        assert refusal(veeam.put_object_retention, **named, Retention=shorter) == ("AccessDenied", 403)
    assert refusal(veeam.delete_object, **named) == ("AccessDenied", 403)
    assert veeam.get_object(**named)["Body"].read() == b"block"


def test_veeam_deletes_a_thousand_versions_of_which_some_are_retained(veeam, guarded):
    versions = []
    for number in range(DELETED_AT_ONCE):
        key = f"blocks/{number:04}"
        if number % 3 == 0:
            versions.append((key, retained(veeam, key, 1), True))
        else:
            versions.append((key, veeam.put_object(Bucket="veeam", Key=key, Body=b"x")["VersionId"], False))
    wanted = [{"Key": key, "VersionId": version} for key, version, _ in versions]
    # The administrator gets no further, with the header to bypass governance.
    for s3, more in ((guarded.client(), {"BypassGovernanceRetention": True}), (veeam, {})):
        done = s3.delete_objects(Bucket="veeam", Delete={"Objects": wanted}, **more)
        refused = {(error["Key"], error["VersionId"]) for error in done["Errors"]}
        assert refused == {(key, version) for key, version, kept in versions if kept}
        assert {error["Code"] for error in done["Errors"]} == {"AccessDenied"}
        assert len(done["Deleted"]) == DELETED_AT_ONCE - len(refused)
    left = veeam.list_object_versions(Bucket="veeam")["Versions"]
    assert {(version["Key"], version["VersionId"]) for version in left} == refused
    assert refusal(guarded.client().delete_bucket, Bucket="veeam") == ("BucketNotEmpty", 409)


@pytest.fixture
def documents(tmp_path):
    root = tmp_path / "documents"
    trees.write(root, FILES)
    return root


def restic_of(server, tmp_path, access_key, secret_key, repository="restic/host"):
    settings = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key, "RESTIC_PASSWORD": "password",
                "RESTIC_REPOSITORY": f"s3:{server.url}/{repository}", "AWS_DEFAULT_REGION": REGION}
    return lambda *arguments, **more: run(tmp_path, installed("restic"), *arguments, **settings, **more)


def restored(restic, snapshot, tree, target):
    restic("restore", snapshot, "--target", target)
    return trees.digests(target / tree.relative_to("/"))


def test_restic_adds_to_a_repository_and_destroys_nothing_of_it(guarded, documents, tmp_path):
    installed("restic")
    assert "no errors were found" in shell(guarded, tmp_path, block("sh", "## restic"))
    admin, thief = guarded.client(), client_of(guarded, "RESTIC")
    restic = restic_of(guarded, tmp_path, "RESTIC", SECRETS["RESTIC"])
    (documents / "more").write_bytes(b"more")
    restic("backup", documents)
    before = contents(admin)
    first = restic("snapshots", "--compact").stdout.splitlines()[2].split()[0]
    assert restic("forget", first, check=False).returncode != 0
    assert restic("init", check=False).returncode != 0
    for key in before:
        assert refusal(thief.put_object, Bucket="restic", Key=key, Body=b"encrypted by ransomware") == ("PreconditionFailed", 412)
        assert refusal(thief.delete_object, Bucket="restic", Key=key) == ("AccessDenied", 403)
    errors = thief.delete_objects(Bucket="restic", Delete={"Objects": [{"Key": key} for key in before]})["Errors"]
    assert {error["Code"] for error in errors} == {"AccessDenied"} and len(errors) == len(before)
    assert contents(admin) == before
    assert "no errors were found" in restic("check", "--read-data").stdout
    assert restored(restic, "latest", documents, tmp_path / "back") == trees.digests(documents)
    owner = restic_of(guarded, tmp_path, ACCESS_KEY, SECRET_KEY)
    owner("forget", "--keep-last", "1", "--prune")
    assert "no errors were found" in restic("check", "--read-data").stdout


def contents(s3):
    """The ETags of all keys but the locks of restic, which it may delete."""
    listed = s3.list_objects_v2(Bucket="restic")["Contents"]
    return {entry["Key"]: entry["ETag"] for entry in listed if "/locks/" not in entry["Key"]}


def test_restic_prunes_a_locked_bucket_and_everything_can_be_brought_back(guarded, documents, tmp_path):
    s3 = guarded.client()
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket="locked", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule})
    restic = restic_of(guarded, tmp_path, ACCESS_KEY, SECRET_KEY, "locked/host")
    restic("init")
    restic("backup", documents)
    first = trees.digests(documents)
    oldest = restic("snapshots", "--compact").stdout.splitlines()[2].split()[0]
    (documents / "large").unlink()
    restic("backup", documents)
    restic("forget", "--keep-last", "1", "--prune")
    assert "no errors were found" in restic("check", "--read-data").stdout
    listed = s3.list_object_versions(Bucket="locked")
    markers = [marker for marker in listed["DeleteMarkers"] if marker["IsLatest"] and "/locks/" not in marker["Key"]]
    assert markers, "what was pruned is hidden"
    for version in listed["Versions"]:
        assert refusal(s3.delete_object, Bucket="locked", Key=version["Key"], VersionId=version["VersionId"]) == ("AccessDenied", 403)
    for marker in markers:
        s3.delete_object(Bucket="locked", Key=marker["Key"], VersionId=marker["VersionId"])
    assert restored(restic, oldest, documents, tmp_path / "back") == first


def test_kopia_has_the_grants_for_retained_files_and_for_a_point_in_time(guarded):
    s3, kopia = guarded.client(), client_of(guarded, "KOPIA")
    s3.create_bucket(Bucket="kopia", ObjectLockEnabledForBucket=True)
    put = kopia.put_object(Bucket="kopia", Key="p1", Body=b"pack", ObjectLockMode="COMPLIANCE",
                           ObjectLockRetainUntilDate=in_days(1))
    kopia.put_object_retention(Bucket="kopia", Key="p1", Retention={"Mode": "COMPLIANCE", "RetainUntilDate": in_days(30)})
    kopia.delete_object(Bucket="kopia", Key="p1")
    versions = kopia.list_object_versions(Bucket="kopia", Prefix="p")["Versions"]
    assert [version["VersionId"] for version in versions] == [put["VersionId"]]
    named = {"Bucket": "kopia", "Key": "p1", "VersionId": put["VersionId"]}
    assert kopia.get_object(**named)["Body"].read() == b"pack"
    assert refusal(kopia.delete_object, **named) == ("AccessDenied", 403)
    assert refusal(s3.delete_object, **named, BypassGovernanceRetention=True) == ("AccessDenied", 403)
