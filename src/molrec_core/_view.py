"""A lazy slice of a trajectory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

from molrec_core._frame import Frame


class Frames(Protocol):
    """What a view looks at: a trajectory reader."""

    def frame(self, i: int, blocks: Sequence[str] | None = None) -> Frame:
        """Return one frame."""
        ...


class FrameView(Sequence[Frame]):
    """A lazy slice of a trajectory; frames are resolved when they are asked for."""

    def __init__(self, reader: Frames, ordinals: range) -> None:
        self._reader = reader
        self.ordinals = ordinals

    def source(self) -> tuple[Any, range]:
        """Return the reader and the ordinals this sequence stands for."""
        return self._reader, self.ordinals

    def __len__(self) -> int:
        """Return the number of frames in the view."""
        return len(self.ordinals)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> FrameView: ...
    def __getitem__(self, index: int | slice) -> Frame | FrameView:
        """Return a frame of the view, or a view of it."""
        if isinstance(index, slice):
            return FrameView(self._reader, self.ordinals[index])
        return self._reader.frame(self.ordinals[index])

    def __iter__(self) -> Iterator[Frame]:
        """Iterate over the frames of the view."""
        for ordinal in self.ordinals:
            yield self._reader.frame(ordinal)

    def __repr__(self) -> str:
        """Return the number of frames."""
        return f"FrameView({len(self)} frames)"
