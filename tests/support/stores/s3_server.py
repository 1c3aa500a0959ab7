"""An S3 server over HTTP (moto) with one bucket."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest import mock

import boto3
from moto.server import ThreadedMotoServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
_buckets = count(1)


@contextmanager
def s3_server() -> Iterator[str]:
    """Run the server and yield its address; credentials are in the environment meanwhile."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with mock.patch.dict(os.environ, CREDENTIALS):
        server.start()
        host, port = server.get_host_and_port()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.stop()


def new_bucket(endpoint: str) -> str:
    """Make an empty bucket and return its name."""
    name = f"artifacts-{next(_buckets)}"
    boto3.client("s3", endpoint_url=endpoint).create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return name
