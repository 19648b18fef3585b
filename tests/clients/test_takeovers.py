"""Hosts that take over from one another by the command that each of them runs at every boot.

A client writes all the time. The old host is lost with its disk, loses power and boots, stalls and goes on, or is cut off from the remote.
After each takeover every object has to be there as it was answered; with --ship async, what was answered within the interval before may be
missing, and is listed by `divergent` on a host that comes back.

| variable | default | |
|---|---|---|
| SILTSTONE_TAKEOVERS | 4 | takeovers of each mode: each fate of the old host in turn |
| SILTSTONE_TAKEOVERS_HOSTS | 2 | hosts, to 4 |
| SILTSTONE_TAKEOVERS_BY_ITSELF | 0 | every how many takeovers a standby decides by itself, which takes it 15 s; 0 for none |
| SILTSTONE_TAKEOVERS_SLACK | 3 | seconds that a piece of the log may take beside the interval |
| SILTSTONE_TAKEOVERS_SEED | 1 | of the random numbers |
| SILTSTONE_TAKEOVERS_ENDPOINT, _BUCKET, _ACCESS_KEY, _SECRET_KEY | none | another remote than Siltstone |
| SILTSTONE_TAKEOVERS_PREFIX | box | where that one is empty |
"""

import os
import random
import signal
import time

import pytest

from takeovers import SHIP_EVERY, Hosts, Writes, listed, promote, section_of

TAKEOVERS = int(os.environ.get("SILTSTONE_TAKEOVERS", "4"))
HOSTS = int(os.environ.get("SILTSTONE_TAKEOVERS_HOSTS", "2"))
BY_ITSELF = int(os.environ.get("SILTSTONE_TAKEOVERS_BY_ITSELF", "0"))
SLACK_SECONDS = float(os.environ.get("SILTSTONE_TAKEOVERS_SLACK", "3"))
SEED = int(os.environ.get("SILTSTONE_TAKEOVERS_SEED", "1"))
TAKEOVER_AFTER_SECONDS = 15
FATES = ["boots", "stalls", "lost", "cut"]
SETTLES_SECONDS = 60
# Neither names --ship: the first is refused, the second answers reads.
LOOKS = [[], ["--read-only"]]
COPY_IS_TOLD = ["--ship", "the server only looks"]


class Takeover:
    """One takeover: what befalls the writer, who goes on, and what the old host does when it is back."""

    def __init__(self, hosts, writes, draw, mode, fate, by_itself):
        self.hosts, self.writes, self.draw, self.mode = hosts, writes, draw, mode
        self.fate, self.by_itself = fate, by_itself
        self.old = hosts.writer

    def befall(self):
        time.sleep(self.draw.uniform(0.2, 2))
        if self.fate in ("lost", "boots"):
            self.old.server.kill()
        elif self.fate == "stalls":
            self.old.server.process.send_signal(signal.SIGSTOP)
        else:
            self.old.link.cut()
        stalled_at = time.monotonic()
        self.writes.rest()
        return stalled_at

    def run(self):
        """Gives the seconds without a writer: since the promotion, or where a standby decides by itself, since the old host stalled."""
        stalled_at = self.befall()
        # The client's last request waits for a host that stalls.
        begun = stalled_at if self.by_itself else time.monotonic()
        if self.fate == "boots" and self.by_itself and self.draw.random() < 0.5:
            # Into the silence, in which it is the writer still, or into the takeover of another one.
            time.sleep(self.draw.uniform(0, TAKEOVER_AFTER_SECONDS + 5))
            self.old.boot()
            writer = self.hosts.next_writer(self.hosts.all)
        else:
            if not self.by_itself:
                promote(self.draw.choice(self.hosts.others()).server)
            writer = self.hosts.next_writer(self.hosts.others())
        took = time.monotonic() - begun
        late = self.come_back()
        self.hosts.writer = self.hosts.settle()
        lost = self.writes.check(self.hosts.writer.server, stalled_at, self.mode, SLACK_SECONDS)
        if self.fate != "lost" and self.hosts.writer is not self.old:
            told = self.old.divergent()
            missing = [key for key in late + lost if not listed(key, told)]
            assert not missing, f"{missing} are not listed by {self.old.name}:\n{told}\n{self.hosts.log()}"
        self.writes.use(self.hosts.writer.server)
        assert writer in self.hosts.all
        return took

    def come_back(self):
        """Lets the old host come back. Gives the keys of the writes that it still answered."""
        if self.fate == "lost":
            self.old.lose()
        elif self.fate == "boots":
            if self.old.is_off():
                self.old.boot()
        elif self.fate == "stalls":
            self.old.server.process.send_signal(signal.SIGCONT)
            return self.old.late_writes(self.mode, SETTLES_SECONDS)
        else:
            late = self.old.late_writes(self.mode, self.draw.uniform(0, 5))
            self.old.link.mend()
            return late + [key for key in self.old.late_writes(self.mode, SETTLES_SECONDS) if key not in late]
        return []


def take_over_often(own_server, tmp_path, section, mode):
    draw = random.Random(SEED)
    options = ["--standby", "true", "--takeover-after", f"{TAKEOVER_AFTER_SECONDS}s"]
    options += ["--ship", mode, "--ship-every", f"{int(SHIP_EVERY * 1000)}ms"]
    hosts = Hosts(own_server, tmp_path, section, HOSTS, options)
    writes = Writes(SEED)
    hosts.writer = hosts.settle()
    writes.use(hosts.writer.server)
    writes.start()
    times = {True: [], False: []}
    copies = []
    try:
        for number in range(TAKEOVERS):
            by_itself = BY_ITSELF > 0 and number % BY_ITSELF == BY_ITSELF - 1
            fate = FATES[number % len(FATES)] if TAKEOVERS <= len(FATES) else draw.choice(FATES)
            took = Takeover(hosts, writes, draw, mode, fate, by_itself).run()
            times[by_itself].append(took)
            print(f"{mode} {number + 1}: {fate}, {'by itself' if by_itself else 'promoted'}, {took:.1f} s, {hosts.writer.name} writes", flush=True)
            # The living writer goes on; the next takeover reads every object.
            copies.append(hosts.start_copy_beside(own_server, draw.choice(LOOKS)))
            assert writes.is_alive(), "the client has failed"
        assert all(any(told in said for told in COPY_IS_TOLD) for said in copies), copies
    finally:
        writes.ends.set()
        writes.join()
        hosts.end()
    for by_itself, took in times.items():
        if took:
            took.sort()
            how = "by itself" if by_itself else "promoted"
            print(f"{mode}, {how}: {len(took)} takeovers, writes after {took[len(took) // 2]:.2f} s (median), {took[-1]:.2f} s (most)")
    print(f"{mode}: {writes.counts}, the oldest that was lost {writes.oldest_lost:.2f} s before the stall", flush=True)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_takeovers_with_siltstone_as_the_remote(own_server, tmp_path, mode):
    remote = own_server("--bucket", "cold").start()
    take_over_often(own_server, tmp_path, section_of(remote.url), mode)


@pytest.mark.skipif("SILTSTONE_TAKEOVERS_ENDPOINT" not in os.environ, reason="no other server is named")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_takeovers_with_another_server_as_the_remote(own_server, tmp_path, mode):
    named = {name: os.environ[f"SILTSTONE_TAKEOVERS_{name.upper()}"] for name in ("endpoint", "bucket", "access_key", "secret_key")}
    prefix = os.environ.get("SILTSTONE_TAKEOVERS_PREFIX", "box")
    take_over_often(own_server, tmp_path, section_of(**named, prefix=f"{prefix}-{mode}"), mode)
