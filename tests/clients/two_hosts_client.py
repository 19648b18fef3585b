"""Puts objects to one address, one after another, until a file appears; prints a line of JSON for each one that was answered."""

import json
import os
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

endpoint, access_key, secret_key, stop = sys.argv[1:]
s3 = boto3.client(
    "s3", endpoint_url=endpoint, aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name="eu",
    config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=5, s3={"addressing_style": "path"}),
)
at = 0
while not os.path.exists(stop):
    try:
        s3.put_object(Bucket="data", Key=f"k{at}", Body=f"body of {at}".encode())
    except (ClientError, BotoCoreError):
        time.sleep(0.2)
    else:
        print(json.dumps({"nth": at, "time": time.monotonic()}), flush=True)
    at += 1
    time.sleep(0.05)
