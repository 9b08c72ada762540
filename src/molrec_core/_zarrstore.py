"""Any store of zarr-python as a store of ours: object stores, HTTP, memory."""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Sequence
from typing import Any

from molrec_core._codecs import Buffer
from molrec_core._remote import reaching
from molrec_core._store import MAX_DOCUMENT, ZARR_JSON, join
from molrec_core.errors import FormatError, RecordError


class ZarrStore:
    """Any store of zarr-python, read-only: object stores, HTTP, memory."""

    def __init__(self, store: Any, path: str = "") -> None:
        self._store = store
        self._path = path or str(store)
        self._pid = os.getpid()

    @property
    def path(self) -> str:
        """Where the record is."""
        return self._path

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the zarr store pickles."""
        return {"store": self._store, "path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open over the unpickled zarr store."""
        self.__init__(state["store"], state["path"])  # type: ignore[misc]

    def _get(self, key: str, start: int, stop: int) -> bytes | None:
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync as wait

        with reaching(f"{self._path}/{key}"):
            found = wait(self._here().get(key, default_buffer_prototype(), RangeByteRequest(start, stop)))
        return None if found is None else found.to_bytes()

    def _here(self) -> Any:
        """Return the wrapped store; in a forked child one of its own: connections stay with the parent."""
        if self._pid != os.getpid():
            if hasattr(self._store, "fs"):
                # The parent's is kept: letting go of it would complain about its open connections.
                self._parents, self._store = self._store, copy.deepcopy(self._store)
            self._pid = os.getpid()
        return self._store

    def get(self, key: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """Return a whole object; None when it is missing."""
        # A range, because s3fs asks for the size of an object first when it is to read all of it.
        data = self._get(key, 0, limit + 1)
        if data is not None and len(data) > limit:
            raise FormatError.one(key, "too_large", f"more than the {limit} bytes that are expected")
        return data

    def size(self, key: str) -> int | None:
        """Return the length of an object; None when it is missing."""
        from zarr.core.sync import sync as wait

        try:
            with reaching(f"{self._path}/{key}"):
                return int(wait(self._here().getsize(key)))
        except FileNotFoundError:
            return None

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        data = self._get(key, offset, offset + length) if length else b""
        if data is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", key)
        if len(data) > length:
            text = "the server sends whole files where parts are asked for; download the record and open it there"
            raise RecordError(text, kind="no_ranges", loc=key)
        return data

    def read_into(self, key: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Fill `buffers` from `offset`; one request for all of them."""
        views = [memoryview(b).cast("B") for b in buffers]
        data = memoryview(self.read(key, offset, sum(len(v) for v in views)))
        at = 0
        for view in views:
            part = data[at : at + len(view)]
            view[: len(part)] = part
            at += len(part)
        return at

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Return the names of (directories, files) right below `key`.

        Raises
        ------
        RecordError
            ``no_listing``: the store (plain HTTP, say) does not tell what it holds.
        """
        from zarr.core.sync import sync as wait

        try:
            below = wait(self._below(key))
        except Exception as error:
            # Each kind of store has its own way to say that it does not list.
            raise self._no_listing(key) from error
        if not below and self.get(join(key, ZARR_JSON)) is not None:
            raise self._no_listing(key)
        return sorted(n for n in below if below[n]), sorted(n for n in below if not below[n])

    async def _below(self, key: str) -> dict[str, bool]:
        """Return the names right below `key`, and whether each is a directory."""
        store = self._here()
        if not hasattr(store, "fs"):
            names = {name.rstrip("/").rpartition("/")[2] async for name in store.list_dir(key)}
            return {name: await self._is_directory(join(key, name)) for name in names}
        # zarr asks for names only; then each would cost a request of its own to tell what it is.
        place = join(store.path.rstrip("/"), key)
        try:
            entries = await store.fs._ls(place, detail=True)
        except store.allowed_exceptions:
            return {}
        found = ((entry["name"].rstrip("/"), entry["type"] == "directory") for entry in entries)
        return {name.rpartition("/")[2]: inside for name, inside in found if not place.endswith(name)}

    def _no_listing(self, key: str) -> RecordError:
        text = "the store does not list what it holds; pack the record (molrec pack) and open the one file"
        return RecordError(text, kind="no_listing", loc=key or self.path)

    async def _is_directory(self, key: str) -> bool:
        async for name in self._here().list_dir(key):
            # Some stores list a file as its own only child; `exists` tells of directories too.
            return bool(name.strip("/") != key)
        return False

    def zarr(self) -> Any:
        """Return the wrapped store."""
        return self._here()

    def close(self) -> None:
        """Leave the wrapped store to its owner."""
