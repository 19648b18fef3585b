"""Clients that write until they are told to stop, and remember what was answered."""

import threading

from botocore.exceptions import BotoCoreError, ClientError


class Writer(threading.Thread):
    """Puts objects of its own into the bucket `data`."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number = server, number
        self.acknowledged = {}
        self.is_stopped = False

    def run(self):
        s3 = self.server.client()
        at = 0
        while not self.is_stopped:
            at += 1
            key = f"{self.number}/{at}"
            size = 300_000 if at % 10 == 0 else 60_000
            body = f"{key} ".encode() * (size // 8)
            try:
                s3.put_object(Bucket="data", Key=key, Body=body)
            except (BotoCoreError, ClientError):
                # Killed, or full for a while.
                continue
            self.acknowledged[key] = body

    def end(self):
        """Stops it, and returns what was answered."""
        self.is_stopped = True
        self.join()
        return self.acknowledged


def read_back(server, acknowledged):
    s3 = server.client()
    for key, body in acknowledged.items():
        assert s3.get_object(Bucket="data", Key=key)["Body"].read() == body, key
