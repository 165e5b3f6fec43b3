from __future__ import annotations

import gc
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ftlkit

SMALL: Any = {"device": "tpftl-512m", "export": "64MiB"}


class Nbd:
    """A client of NBD, as small as can be: fixed newstyle, NBD_OPT_EXPORT_NAME."""

    def __init__(self, uri: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(uri.split("socket=")[1])
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
        self.size, self.flags = struct.unpack(">QH", self.take(10))

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "the server hung up"
            data += part
        return data

    def error(self, kind: int, offset: int, length: int, data: bytes = b"") -> int:
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 7, offset, length) + data)
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert (magic, cookie) == (0x67446698, 7)
        return int(error)

    def ask(self, kind: int, offset: int, length: int, data: bytes = b"") -> bytes:
        assert self.error(kind, offset, length, data) == 0
        return self.take(length) if kind == 0 else b""

    def close(self) -> None:
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 7, 0, 0))
        self.socket.close()


def test_bytes_are_kept_over_power_off(tmp_path: Path) -> None:
    data = os.urandom(74 * 4096)
    with ftlkit.Device.create(tmp_path / "disk.ftl", scheme="tpftl", cache="5%", wear_gap=16, **SMALL) as device:
        assert device.info["exported_bytes"] == 64 << 20
        assert device.info["wear_gap"] == 16
        assert repr(device).startswith(f"<Device {tmp_path / 'disk.ftl'}: tpftl on tpftl-512m")
        device.serve()
        assert "served on nbd+unix:///?socket=" in repr(device)
        client = Nbd(device.uri)
        assert client.size == 64 << 20
        client.ask(1, 4096, len(data), data)
        assert client.ask(0, 4096, len(data)) == data
        client.ask(3, 0, 0)
        assert device.counted().flash["host"]["programs"] >= len(data) // 4096
        assert "ftl_requests_total" in device.metrics()
        client.close()
    with ftlkit.Device(tmp_path / "disk.ftl").serve() as device:
        client = Nbd(device.uri)
        assert client.ask(0, 4096, len(data)) == data
        client.close()


def test_read_only_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "disk.ftl"
    with ftlkit.Device.create(path, scheme="page", **SMALL).serve() as device:
        client = Nbd(device.uri)
        client.ask(1, 0, 4096, b"x" * 4096)
        client.close()
    before = path.read_bytes()
    with ftlkit.Device(path).serve(read_only=True) as one, ftlkit.Device(path).serve(read_only=True) as two:
        for device in (one, two):
            client = Nbd(device.uri)
            assert client.flags & 2, "NBD_FLAG_READ_ONLY"
            assert client.ask(0, 0, 4096) == b"x" * 4096
            assert client.error(1, 0, 4096, b"y" * 4096) == 1, "EPERM"
            client.close()
        with pytest.raises(ftlkit.FileError, match=r"disk\.ftl"):
            ftlkit.Device(path).serve()
    assert path.read_bytes() == before


def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "disk.ftl"
    code = f"""
import os, signal, sys
sys.path[:0] = [{os.fspath(Path(__file__).parent)!r}]
import ftlkit
from test_device import Nbd
device = ftlkit.Device.create({os.fspath(path)!r}, scheme="dftl", device="tpftl-512m", export="64MiB")
device.serve("./nbd.sock")
client = Nbd(device.uri)
client.ask(1, 8192, 4096, b"x" * 4096)
client.ask(3, 0, 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == -9
    with ftlkit.Device(path).serve() as device:
        client = Nbd(device.uri)
        assert client.ask(0, 8192, 4096) == b"x" * 4096
        client.close()


def test_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "disk.ftl"
    with pytest.raises(ftlkit.FileError, match="missing"):
        ftlkit.Device(tmp_path / "missing.ftl")
    with pytest.raises(ftlkit.InputError, match="there is no scheme `pgae`"):
        ftlkit.Device.create(path, scheme="pgae", **SMALL)
    with pytest.raises(ftlkit.InputError, match="`-5` is no size"):
        ftlkit.Device.create(path, device="tpftl-512m", export=-5)
    with pytest.raises(ftlkit.InputError, match="wear_gap: -1 is not from 0 to 4294967295"):
        ftlkit.Device.create(path, wear_gap=-1, **SMALL)
    device = ftlkit.Device.create(path, **SMALL)
    with pytest.raises(ftlkit.FtlError, match=r"disk\.ftl"):
        ftlkit.Device.create(path, **SMALL)
    with pytest.raises(ftlkit.DeviceError, match=r"is not served; call serve\(\) first"):
        device.metrics()
    with device.serve():
        with pytest.raises(ftlkit.DeviceError, match="is served already"):
            device.serve()
        with pytest.raises(ftlkit.FileError, match=r"disk\.ftl"):
            ftlkit.Device(path).serve()
    device.close()
    with pytest.raises(ftlkit.InputError, match="is no address; write HOST:PORT"):
        device.serve("here")


def test_a_device_that_nobody_holds_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "disk.ftl"
    assert ftlkit.Device.create(path, **SMALL).serve().uri
    gc.collect()
    with ftlkit.Device(path).serve(tmp_path / "a b%.sock") as device:
        assert device.uri.endswith("/a%20b%25.sock")


def test_a_device_may_be_a_dict(tmp_path: Path) -> None:
    described = ftlkit.device("tpftl-512m") | {"name": "mine"}
    assert ftlkit.Device.create(tmp_path / "disk.ftl", device=described).info["device"] == "mine"
