"""Each block of the pages on packages, releases, small machines and other people's programs is run by a test, or the page says that it
is not. A new block needs a line here."""

import re

import pytest

from siltstone import ROOT

# For each page the beginnings of its blocks, in their order: with the test that runs the block, or with the words of the page on why
# none does.
BLOCKS = {
    "appliances": [
        ("siltstone --config", "package/test_appliances.py test_a_file_serves_within_its_memory_under_load"),
        ("docker run", "package/test_engine.py test_a_small_container_serves_by_the_command_of_the_guide"),
        ("siltstone health", "package/test_appliances.py test_the_watchdog_of_the_page_asks_for_the_health"),
    ],
    "applications": [
        ("aws s3 mb", "clients/test_applications.py test_the_user_of_the_page_is_confined_to_its_bucket"),
        ("version: 0.1", "clients/test_applications.py test_docker_registry_keeps_images"),
        ("[global]", "clients/test_applications.py test_pgbackrest_backs_up_and_restores"),
        ("pgbackrest --stanza=main stanza-create", "clients/test_applications.py test_pgbackrest_backs_up_and_restores"),
        ("pgbackrest --stanza=main restore", "clients/test_applications.py test_pgbackrest_backs_up_and_restores"),
        ("barman-cloud-wal-archive", "clients/test_applications.py test_barman_cloud_archives_and_backs_up"),
        ("barman-cloud-backup", "clients/test_applications.py test_barman_cloud_archives_and_backs_up"),
        ("dbs:", "clients/test_applications.py test_litestream_brings_a_database_back"),
        ("litestream replicate", "clients/test_applications.py test_litestream_brings_a_database_back"),
        ("duplicity", "clients/test_backups.py test_duplicity_takes_the_address_as_the_guide_says"),
        ("upstream siltstone", "clients/test_proxies.py test_uploads_of_any_size_pass_and_come_back"),
        ("defaults", "clients/test_proxies.py test_uploads_of_any_size_pass_and_come_back"),
    ],
    "minio": [
        ("services:", "package/test_compose_files.py test_the_compose_file_of_the_guide_works"),
        ("siltstone-tools inspect", "guide/commands.rs drives_of_minio_are_looked_at_and_imported_by_the_commands_of_the_guide"),
        ("mc admin", "`mc` and a server of MinIO do not run there, since no package has them."),
    ],
    "packages": [
        ("docker load", "package/test_engine.py test_the_image_serves_in_an_engine_by_the_commands_of_the_guide"),
        ("docker exec", "package/test_engine.py test_the_image_serves_in_an_engine_by_the_commands_of_the_guide"),
        ("tar -xzf", "package/test_tar.py prefix"),
        ("apt install", "package/test_deb.py test_the_package_installs_upgrades_and_purges"),
        ("sudo -u siltstone", "package/test_deb.py test_the_package_installs_upgrades_and_purges"),
        ("[Unit]", "package/test_deb.py test_the_drop_in_of_the_guide_is_one"),
    ],
    "planning": [],
    "releases": [("minisign -V", "package/test_release.py test_the_commands_of_the_guide_check_a_release_and_find_what_was_changed")],
    "security": [],
    "testing": [
        ("SILTSTONE_ACCESS_KEY=test", "clients/test_testing_page.py test_the_first_line_that_is_said"),
        ("import os", "clients/test_testing_page.py test_python"),
        ("import { spawn }", "clients/test_testing_page.py test_javascript"),
        ("package main", "clients/test_testing_page.py test_go"),
        ("use std::io", "clients/test_testing_page.py test_rust"),
        ("dir=$(mktemp -d)", "clients/test_testing_page.py test_a_shell"),
    ],
    "upgrading": [],
}


@pytest.mark.parametrize("page", BLOCKS)
def test_each_block_is_run_or_is_said_not_to_be(page):
    text = (ROOT / f"src/guide/{page}.md").read_text()
    found = re.findall(r"^```\S+\n(.*?)^```", text, re.M | re.S)
    assert len(found) == len(BLOCKS[page]), "a block has no line in this test"
    for block, (begin, held) in zip(found, BLOCKS[page]):
        assert block.startswith(begin)
        file, _, name = held.partition(" ")
        if "/" in file:
            source = (ROOT / "tests" / file).read_text()
            assert re.search(rf"^(def|fn) {name}\(", source, re.M), held
        else:
            assert held in " ".join(text.split()), held
