"""Keyboards and mice are looked at without reading what was typed; pipes stand for them."""

from __future__ import annotations

import os
from pathlib import Path

from daemons.startd.machine.input_devices import InputDevices


def test_a_key_press_is_seen_once_and_never_read(tmp_path: Path) -> None:
    name = tmp_path / "platform-i8042-serio-0-event-kbd"
    os.mkfifo(name)
    os.mkfifo(tmp_path / "platform-pcspkr-event-spkr")
    devices = InputDevices(tmp_path)
    assert not devices.were_used()
    writer = os.open(name, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writer, b"key")
    os.close(writer)
    assert devices.were_used()
    assert not devices.were_used()
    devices.close()


def test_a_machine_without_input_devices_is_not_used(tmp_path: Path) -> None:
    assert not InputDevices(tmp_path / "input").were_used()
