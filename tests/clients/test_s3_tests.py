"""Ceph's public suite of S3 tests: what the guide tells of it, and, where S3_TESTS names a checkout, each of its tests."""

import os
import re

import pytest

import s3_tests
from siltstone import ROOT

CHECKOUT = os.environ.get("S3_TESTS")


def test_the_guide_has_the_tables_of_the_file():
    page = s3_tests.PAGE.read_text()
    assert s3_tests.tables() in page, "put in what `s3_tests.py table` prints"


def test_the_readme_has_the_figures_of_the_file():
    places = s3_tests.places().values()
    passing = sum(place.of == s3_tests.PASSES for place in places)
    told = re.search(r"passes ([\d,]+) of the ([\d,]+) tests", (ROOT / "README.md").read_text())
    assert told and [int(number.replace(",", "")) for number in told.groups()] == [passing, len(places)]


@pytest.mark.skipif(not CHECKOUT, reason="S3_TESTS names no checkout of https://github.com/ceph/s3-tests")
def test_each_test_of_the_suite_has_the_result_of_its_place(tmp_path):
    places = s3_tests.places()
    run = s3_tests.Run(CHECKOUT, tmp_path)
    names = run.names()
    assert sorted(names) == sorted(places), "the file is about another commit of the suite"
    results = run.results(names)
    others = [name for name, result in results.items() if result.passed != (places[name].of == s3_tests.PASSES)]
    # Some of its tests depend on the second in which they run: a result counts that comes twice.
    again = run.results(others)
    wrong = [name for name in others if again[name].passed == results[name].passed]
    assert not wrong, "\n".join(f"{name}: {places[name]}, but {again[name]}" for name in wrong)
