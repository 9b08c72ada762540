"""What a URL names, reached through fsspec; what goes wrong on the way is told with the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

from molrec_core._store import not_a_record
from molrec_core.errors import RecordError, RecordNotFoundError

BLOCK = 2**16
"""Bytes read ahead in an archive: the documents behind a header come along, a chunk does not."""

_AMAZON = frozenset({"s3", "s3a"})


def open_store(url: str, options: Mapping[str, Any]) -> Any:
    """Return a read-only store of zarr-python over what lies below a URL.

    Raises
    ------
    RecordError
        ``not_installed``: a package that the URL needs is missing.
    """
    with reaching(url):
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(url, storage_options=dict(options), read_only=True)


def open_file(url: str, options: Mapping[str, Any]) -> IO[bytes]:
    """Return the object behind a URL as a binary file that reads ranges.

    Raises
    ------
    RecordNotFoundError
        There is no such object.
    RecordError
        ``not_installed``, ``no_access`` or ``unreachable``.
    """
    with reaching(url):
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, **options)
        try:
            # A file system reads ahead by as much as it likes: s3fs by 50 MiB, which is most records whole.
            file: IO[bytes] = system.open(path, "rb", block_size=BLOCK, cache_type="readahead")
        except FileNotFoundError as error:
            raise nothing_there(url, "there is nothing", error) from error
    return file


def nothing_there(url: str, found: str, error: FileNotFoundError) -> RecordNotFoundError:
    """Build the error of a URL that names no record."""
    # With a cause the text is the server's own; without one it is the path once more.
    return not_a_record(url, f"{found} ({error})" if error.__cause__ else found)


@contextlib.contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn what fsspec and its file systems raise into errors of ours, where there is a way out to name.

    Raises
    ------
    RecordError
        ``not_installed``: a package is missing. ``no_access``: no credentials, or not the
        right ones. ``unreachable``: no answer.
    """
    try:
        yield
    except RecordError:
        raise
    except Exception as error:
        # Each kind of file system brings errors of its own, and none may be installed.
        told = _explain(url, error)
        if told is None:
            raise
        raise told from error


def _explain(url: str, error: Exception) -> RecordError | None:
    scheme = url.partition("://")[0].rpartition("::")[2]
    name, text = type(error).__name__, str(error).rstrip(".")
    if isinstance(error, ImportError):
        way = "pip install 'molrec[s3]'" if scheme in _AMAZON or "fsspec" in text else "install it"
        msg = f"{scheme}:// needs a package that is not installed ({text}); {way}"
        return RecordError(msg, kind="not_installed", loc=url)
    amazon = type(error).__module__.startswith("botocore.")
    if amazon and any(word in name for word in ("Credential", "Profile", "Token", "Auth")):
        msg = f"there are no credentials ({text}); {_ways(scheme)}"
        return RecordError(msg, kind="no_access", loc=url)
    if isinstance(error, PermissionError) or getattr(error, "status", None) in {401, 403}:
        msg = f"the server does not allow this ({text}); {_ways(scheme)}"
        if scheme in _AMAZON:
            msg += (
                ". Where a bucket may not be listed, that is the answer for what is not there too: "
                "check the path, allow s3:ListBucket, or open a packed record"
            )
        return RecordError(msg, kind="no_access", loc=url)
    if amazon:
        msg = (
            f"the server gives no answer ({text}); check the network and the endpoint "
            "(storage_options={'endpoint_url': ...} or AWS_ENDPOINT_URL)"
        )
        return RecordError(msg, kind="unreachable", loc=url)
    return None


def _ways(scheme: str) -> str:
    if scheme not in _AMAZON:
        return "give credentials in storage_options"
    return (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give "
        "storage_options={'key': ..., 'secret': ...}; what is public opens with storage_options={'anon': True}"
    )
