"""The contract test of conditional writes: Siltstone passes it, and a store that keeps only a part of the contract does not."""

import json
import subprocess

from moto.server import ThreadedMotoServer

from siltstone import ACCESS_KEY, BINARY, SECRET_KEY, clean_environment

TOOLS = BINARY.with_name("siltstone-tools")


def cas_check(url, home, *arguments):
    """Runs the check, by default with 50 rounds of 16 connections."""
    done = subprocess.run(
        [str(TOOLS), "--json", "cas-check", url, *arguments],
        env=clean_environment(home, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY),
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert (done.returncode == 0) == (report["verdict"] == "pass")
    return report


def results(report):
    return {(check["check"], check["versions"]): check["result"] for check in report["checks"]}


def test_siltstone_keeps_the_whole_contract(own_server, tmp_path):
    server = own_server().start()
    report = cas_check(server.url, tmp_path)
    assert set(results(report).values()) == {"holds"} and len(results(report)) == 16, report
    assert server.client().list_buckets()["Buckets"] == []


def test_moto_does_not_pass(tmp_path):
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    try:
        # What is looked at below needs no race.
        report = cas_check("http://{}:{}".format(*moto.get_host_and_port()), tmp_path, "--rounds", "2")
    finally:
        moto.stop()
    assert report["verdict"] == "fail"
    # It ignores If-Match on the completion of an upload.
    assert results(report)[("multipart", False)] == "broken", report
    assert results(report)[("create", False)] == "holds", report
