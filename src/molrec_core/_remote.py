"""What a URL names, reached through fsspec; what goes wrong on the way is told with the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

from molrec_core._store import ZARR_JSON, not_a_record
from molrec_core.errors import RecordError, RecordNotFoundError

WINDOW = 2**16 + 2**12
"""Bytes that a small read takes along: the index of a shard and the header before it, or many documents."""


def open_store(url: str, options: Mapping[str, Any]) -> Any:
    """Return a read-only store of zarr-python over the record that a URL names.

    Raises
    ------
    RecordNotFoundError
        There is no record.
    RecordError
        As :func:`reaching`.
    """
    with reaching(url):
        from zarr.core.sync import sync as wait
        from zarr.storage import FsspecStore

        store = FsspecStore.from_url(url, storage_options=dict(options), read_only=True)
        with _asked(store.fs):
            # What is there is asked anew: fsspec keeps listings, and the record may have grown since.
            store.fs.invalidate_cache()
            try:
                # Asked below zarr, which keeps to itself what the server says is missing: the bucket or the key.
                wait(store.fs._cat_file(f"{store.path}/{ZARR_JSON}", start=0, end=1))
            except store.allowed_exceptions as error:
                raise _nothing(url, "there is no zarr.json", error) from error
    return store


def open_file(url: str, options: Mapping[str, Any]) -> IO[bytes]:
    """Return the object behind a URL as a binary file that reads ranges.

    Raises
    ------
    RecordNotFoundError
        There is no such object.
    RecordError
        As :func:`reaching`.
    """
    with reaching(url):
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url, **options)
        with _asked(system):
            system.invalidate_cache()
            try:
                # By itself s3fs reads ahead by 50 MiB, which is most records whole.
                file: IO[bytes] = system.open(path, "rb", block_size=2**8, cache_type="readahead")
            except FileNotFoundError as error:
                if _refused(error):
                    raise
                raise _nothing(url, "there is nothing", error) from error
    return file


_retired: list[Any] = []


@contextlib.contextmanager
def _asked(system: Any) -> Iterator[None]:
    """Keep fsspec from answering the next try, which may come with credentials, from what failed without."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception:
        type(system)._cache.pop(system._fs_token, None)
        # It stays open: another record may be read through it, and one that is let go of complains.
        _retired.append(system)
        raise


def _nothing(url: str, found: str, error: Exception) -> RecordNotFoundError:
    text = _text(error)
    # With a cause the text may be the server's own; else it is the path once more.
    return not_a_record(url, f"{found} ({text})" if error.__cause__ and text not in url else found)


def _refused(error: Exception) -> bool:
    # Over HTTP a refusal may come as a file that is not found.
    statuses = (getattr(error, "status", None), getattr(error.__cause__, "status", None))
    return isinstance(error, PermissionError) or 401 in statuses or 403 in statuses


def _text(error: Exception) -> str:
    return str(error).rstrip(".")


@contextlib.contextmanager
def reaching(url: str) -> Iterator[None]:
    """Say what keeps a file system of fsspec from answering, and the way out.

    Raises
    ------
    RecordError
        ``not_installed``: a package is missing. ``no_access``: no credentials, or not the
        right ones. ``unreachable``: no answer. Other errors pass as they are.
    """
    try:
        yield
    except RecordError:
        raise
    except Exception as error:
        # Each file system has errors of its own, and no package of theirs may be installed.
        told = _explain(url, error)
        if told is None:
            raise
        raise told from error


def _explain(url: str, error: Exception) -> RecordError | None:
    name, text = type(error).__name__, _text(error)
    if isinstance(error, ImportError):
        scheme = url.partition("://")[0].rpartition("::")[2]
        way = "pip install 'molrec[s3]'" if scheme in {"s3", "s3a"} or "fsspec" in text else "install it"
        msg = f"{scheme}:// needs a package that is not installed ({text}); {way}"
        return RecordError(msg, kind="not_installed", loc=url)
    amazon = type(error).__module__.startswith("botocore.")
    if amazon and any(word in name for word in ("Credential", "Profile", "Token", "Auth")):
        return RecordError(f"there are no credentials ({text}); {_GIVE_KEYS}", kind="no_access", loc=url)
    if _refused(error):
        keys = type(error.__cause__).__module__.startswith("botocore.")
        way = f"{_GIVE_KEYS}. {_OR_MISSING}" if keys else "give credentials in storage_options"
        return RecordError(f"the server refuses access ({text}); {way}", kind="no_access", loc=url)
    if amazon:
        msg = (
            f"the server gives no answer ({text}); check the URL, the network and the endpoint "
            "(storage_options={'endpoint_url': ...} or AWS_ENDPOINT_URL)"
        )
        return RecordError(msg, kind="unreachable", loc=url)
    return None


_GIVE_KEYS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or pass storage_options={'key': ..., "
    "'secret': ...}; for a public record, storage_options={'anon': True}"
)
_OR_MISSING = "S3 answers the same for what is not there, unless the bucket may be listed (s3:ListBucket)"
