"""The byte shuffle: ``numcodecs.shuffle`` of the Zarr extension registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Buffer = bytes | bytearray | memoryview | Array
_PLANEWISE = 8192
"""Elements of a chunk from which joining byte planes one by one beats transposing them together."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Byte shuffle: the first bytes of all elements, then the second ones, and so on."""

    elementsize: int

    def encode(self, data: Buffer) -> Buffer:
        """Split the elements into byte planes."""
        flat = np.frombuffer(data, np.uint8)
        whole = len(flat) // self.elementsize * self.elementsize
        planes = np.ascontiguousarray(flat[:whole].reshape(-1, self.elementsize).T).reshape(-1)
        return planes if whole == len(flat) else np.concatenate([planes, flat[whole:]])

    def encode_run(self, chunks: Array) -> Array:
        """Split the elements of several chunks, (n_chunks, n_bytes) uint8, each into its byte planes."""
        n = len(chunks)
        elements = chunks.reshape(n, -1, self.elementsize)
        return np.ascontiguousarray(elements.transpose(0, 2, 1)).reshape(n, -1)

    def decode(self, data: Buffer, limit: int) -> Buffer:  # noqa: ARG002 - the size does not change
        """Join the byte planes."""
        out = np.empty(len(data), np.uint8)
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Buffer, out: Array) -> None:
        """Join the byte planes into `out`, uint8 of the same length."""
        flat = np.frombuffer(data, np.uint8)
        whole = len(flat) // self.elementsize * self.elementsize
        elements = out[:whole].reshape(-1, self.elementsize)
        planes = flat[:whole].reshape(self.elementsize, -1)
        if planes.shape[1] < _PLANEWISE:
            elements[...] = planes.T
        else:
            # Rounded values leave whole planes of zeros: those are filled, not joined.
            live = [k for k, plane in enumerate(planes) if plane[0] or plane.any()]
            if len(live) < self.elementsize:
                elements.fill(0)
            for k in live:
                elements[:, k] = planes[k]
        out[whole:] = flat[whole:]

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the ``codecs`` list."""
        return {"name": "numcodecs.shuffle", "configuration": {"elementsize": self.elementsize}}
