"""A plugin of pytest for the public suite (s3_tests.py): its clean-up, before and after each of its tests.

The suite clears all its buckets with x-amz-bypass-governance-retention, which S3 refuses for a bucket without object lock: without that,
nothing of it would run. And it makes six clients for each test, which take longer than most tests."""

import functools
import signal

import pytest
from botocore.exceptions import ClientError
from s3tests import functional as suite

clear_locked = suite.nuke_bucket


class WithoutBypass:
    """A client that leaves the header out."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def delete_objects(self, BypassGovernanceRetention, **kept):
        return self.client.delete_objects(**kept)


def clear(client, bucket):
    try:
        client.get_object_lock_configuration(Bucket=bucket)
    except ClientError:
        client = WithoutBypass(client)
    clear_locked(client, bucket)


@functools.cache
def clients():
    return [suite.get_client(), suite.get_alt_client(), suite.get_tenant_client()]


def clear_all():
    for client in clients():
        suite.nuke_prefixed_buckets(prefix=suite.prefix, client=client)


suite.nuke_bucket = clear
suite.setup = suite.teardown = clear_all


# A test that waits for what does not come ends by itself after minutes, or never.
SECONDS_MAX = 60


def end(*_):
    pytest.fail(f"not done after {SECONDS_MAX} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS_MAX)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
