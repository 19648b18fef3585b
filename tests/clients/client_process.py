"""A client of S3 in a process of its own, for a host whose clock is another: the server's address and the keys are in the environment.

Each line of standard input is a list of an operation of boto3 and its parameters, as JSON; a line with the answer follows on standard
output. An error is `{"refused": CODE}`, a body its text."""

import json
import sys

import boto3
from botocore.exceptions import ClientError


def answer(s3, operation, parameters):
    try:
        answered = getattr(s3, operation)(**parameters)
    except ClientError as error:
        return {"refused": error.response["Error"]["Code"]}
    del answered["ResponseMetadata"]
    if "Body" in answered:
        answered["Body"] = answered["Body"].read().decode()
    return answered


def main():
    s3 = boto3.client("s3")
    for line in sys.stdin:
        print(json.dumps(answer(s3, *json.loads(line)), default=str), flush=True)


if __name__ == "__main__":
    main()
