"""Live devices: block devices with real bytes, for tests of other people's storage code."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlkit import _ftlkit
from ftlkit._errors import DeviceError, InputError
from ftlkit._options import with_device
from ftlkit._results import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class Device:
    """A block device in an image file, with any scheme behind it. It survives ``kill -9``.

    >>> with ftlkit.Device.create("disk.ftl", scheme="tpftl", device="tpftl-512m") as device:
    ...     uri = device.serve().uri            # nbd+unix:///?socket=...
    ...     ...                                 # fio, qemu, nbdkit, a database: whatever speaks NBD
    ...     device.counted().flash["host"]["programs"]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """An image that is there.

        Raises:
            FileError: there is no such image, or it is damaged.
        """
        self.path = Path(path)
        """The image file."""
        self.info: dict[str, Any] = json.loads(_ftlkit.describe_image(os.fspath(path)))
        """Scheme, parameters, device, ``exported_bytes``, ``raw_bytes``, ``page_bytes``, ``cache_bytes``."""
        self._server: _ftlkit.Server | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        scheme: str = "page",
        device: str | os.PathLike[str] | Mapping[str, Any] = "femu-32g",
        export: int | str | None = None,
        cache: int | str | None = None,
        wear_gap: int = 0,
    ) -> Device:
        """Makes the image of a fresh device. The file is sparse.

        Args:
            path: the file to make; there must be none of that name.
            scheme: a name of :func:`ftlkit.schemes`, with parameters where they differ from the defaults.
            device: a preset, a device file, or a dict of the same form (:func:`ftlkit.device`).
            export: capacity that clients see, bytes or text such as ``"30GiB"``.
            cache: memory for mapping: bytes, ``"2MiB"``, or a share such as ``"3%"``.
            wear_gap: erases that a superblock may lag behind the mean before what it holds is moved; 0: any.

        Raises:
            InputError: the scheme does not fit the device, or a number is out of range.
            FileError: the file cannot be made.
        """
        if not 0 <= wear_gap < 1 << 32:
            raise InputError(f"wear_gap: {wear_gap} is not from 0 to {(1 << 32) - 1}")
        exported, memory = (None if value is None else str(value) for value in (export, cache))
        with with_device({"device": device}) as given:
            named = os.fspath(given["device"])
            _ftlkit.create_image(os.fspath(path), named, scheme, exported, memory, wear_gap)
        return cls(path)

    def serve(
        self, address: str | os.PathLike[str] | None = None, *, paced: bool = False, read_only: bool = False
    ) -> Device:
        """Switches the device on, which recovers what a crash left, and serves it over NBD until :meth:`close`.

        Args:
            address: ``HOST:PORT``, or the path of a unix socket; one in a folder of its own unless given. There is
                no password: keep TCP on the loopback.
            paced: hold each answer until the device model gives it, so that clients see the latency of flash.
            read_only: write nothing to the image. Clients can only read, and several processes can serve it
                at a time. What recovery does stays in memory.

        Returns:
            The device itself, as a context manager that closes it.

        Raises:
            FileError: the image is in use, or nobody can listen there.
            DeviceError: it is served already.
        """
        if self._server is not None:
            raise DeviceError(f"{self.path} is served already, on {self.uri}; close it first")
        if address is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ftlkit-")
            address = os.fspath(Path(self._folder.name) / "nbd.sock")
        try:
            self._server = _ftlkit.Server(os.fspath(self.path), os.fspath(address), paced, read_only)
        finally:
            if self._server is None:
                self._clean()
        return self

    def _on(self) -> _ftlkit.Server:
        if self._server is None:
            raise DeviceError(f"{self.path} is not served; call serve() first")
        return self._server

    @property
    def uri(self) -> str:
        """The URI of NBD where clients connect."""
        return self._on().uris()[0]

    def counted(self) -> Phase:
        """What the device has counted since it was switched on: flash operations by cause, hits, collections."""
        return Phase(json.loads(self._on().counted()))

    def metrics(self) -> str:
        """What the device counts, as text for Prometheus."""
        return self._on().metrics()

    def close(self) -> None:
        """Ends the server, and switches the device off in good order. Closing again changes nothing.

        Raises:
            DeviceError: it could not be switched off in good order; the next start recovers it.
            FindingError: the scheme panicked while it was served: a bug.
        """
        server, self._server = self._server, None
        try:
            if server is not None:
                server.close()
        finally:
            self._clean()

    def _clean(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def __enter__(self) -> Device:
        """The device itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __repr__(self) -> str:
        """Path, scheme, and where it is served."""
        where = f", served on {self.uri}" if self._server is not None else ""
        return f"<Device {self.path}: {self.info['scheme']} on {self.info['device']}{where}>"
