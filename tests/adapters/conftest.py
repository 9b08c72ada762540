"""S3 on this machine, as moto serves it: users with policies, and a list of what was asked for."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import urllib.request
from importlib.util import find_spec
from typing import NamedTuple

import pytest

OWNER = {"key": "owner", "secret": "owner"}


class Request(NamedTuple):
    method: str
    path: str
    range: str
    signed: bool
    status: int
    n_bytes: int


class Asked(list):
    """The requests that a server answered."""

    @property
    def n_bytes(self):
        """Bytes that were sent; a request of another method names a length and sends none."""
        return sum(request.n_bytes for request in self if request.method == "GET")


class Server:
    """An S3 server with buckets of ours; ``options`` is what a reader needs to be its owner.

    As moto starts, whoever signs is let in, and whoever does not sees what is public.
    Inside ``guarded()`` a signature counts, and so do the policies of the user.
    """

    def __init__(self):
        from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        class Quiet(MotoRequestHandler):
            def log(self, *args, **kwargs):
                pass

        self.asked = Asked()
        self._numbers = itertools.count()
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.options = {"endpoint_url": self.url, **OWNER}

    def _answer(self, environ, start_response):
        def start(status, headers, *rest):
            length = {name.lower(): value for name, value in headers}.get("content-length", 0)
            self.asked.append(
                Request(
                    environ["REQUEST_METHOD"],
                    environ["PATH_INFO"],
                    environ.get("HTTP_RANGE", ""),
                    "HTTP_AUTHORIZATION" in environ,
                    int(status[:3]),
                    int(length),
                )
            )
            return start_response(status, headers, *rest)

        return self._application(environ, start)

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self, service):
        import boto3

        keys = {"aws_access_key_id": OWNER["key"], "aws_secret_access_key": OWNER["secret"]}
        client = boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)
        return contextlib.closing(client)

    def upload(self, bucket, path, name, acl="private"):
        """Put a file, or every file of a directory, below a bucket that is made when needed; return the URL."""
        with self.client("s3") as s3:
            if bucket not in {b["Name"] for b in s3.list_buckets()["Buckets"]}:
                s3.create_bucket(Bucket=bucket)
            # Documents after chunks, as a reader beside this would want them.
            for file in sorted(path.rglob("*"), key=lambda p: (p.suffix, p)) if path.is_dir() else [path]:
                if file.is_file():
                    key = f"{name}/{file.relative_to(path)}" if path.is_dir() else name
                    s3.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), ACL=acl)
        return f"s3://{bucket}/{name}"

    def user(self, *statements):
        """Make a user who may do what the statements of a policy say; return what a reader needs to be them."""
        name = f"user-{next(self._numbers)}"
        with self.client("iam") as iam:
            iam.create_user(UserName=name)
            key = iam.create_access_key(UserName=name)["AccessKey"]
            if statements:
                policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
                iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy)
        return {"endpoint_url": self.url, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}

    @contextlib.contextmanager
    def guarded(self):
        self._guard(b"0")
        try:
            yield
        finally:
            self._guard(b"inf")

    def _guard(self, after):
        """Tell moto after how many requests it is to look at who asks."""
        plain = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=after, headers=plain)
        urllib.request.urlopen(request).close()

    @contextlib.contextmanager
    def counted(self):
        """Give the requests of the block."""
        self.asked = Asked()
        try:
            yield self.asked
        finally:
            self.asked = Asked()


@pytest.fixture(scope="session")
def s3_server():
    needed = ("s3fs", "boto3", "moto", "flask", "flask_cors")
    if not all(map(find_spec, needed)):
        pytest.skip(f"one of {', '.join(needed)} is not installed")
    server = Server()
    yield server
    server.stop()


_kept = []


@pytest.fixture
def s3(s3_server, tmp_path, monkeypatch):
    """The server, for a process that knows of no account, whatever machine the tests run on."""
    from s3fs import S3FileSystem

    for name in list(os.environ):
        if name.startswith(("AWS_", "FSSPEC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    # What fsspec keeps belongs to one environment. Nothing is let go of: an open session would complain.
    monkeypatch.setattr(S3FileSystem, "_cache", {})
    _kept.append(S3FileSystem._cache)
    return s3_server


@pytest.fixture
def signed_in(s3, monkeypatch):
    """The server, with credentials and endpoint in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OWNER["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OWNER["secret"])
    return s3
