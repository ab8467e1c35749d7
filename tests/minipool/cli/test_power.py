"""condor_power sends real packets, which a listener in the machine's subnet hears."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.pool_tools import power

MAC = "00:16:3e:0a:0b:0c"
PACKET = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16
HEARD_S = 30.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.255.255.255", 0))
        heard.settimeout(HEARD_S)
        yield heard


def ad_of(listener: socket.socket, **attributes: str) -> str:
    port = listener.getsockname()[1]
    ad = {"HardwareAddress": f'"{MAC}"', "SubnetMask": '"255.0.0.0"', "MyAddress": '"<127.0.0.1:9618>"', **attributes}
    return "".join(f"{name} = {value}\n" for name, value in {**ad, "WakePort": port}.items())


def test_the_machine_of_an_ad_on_standard_input_is_woken(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(ad_of(listener)))
    assert power.main("power", ["-d", "-i"]) == 0
    assert listener.recvfrom(1024)[0] == PACKET
    said = capsys.readouterr().err
    assert f"Broadcasting to 127.255.255.255, port {listener.getsockname()[1]}, for {MAC}." in said
    assert said.endswith("Packet sent.\n")


def test_the_machine_of_an_ad_in_a_file_is_woken(listener: socket.socket, tmp_path: Path) -> None:
    file = tmp_path / "ad"
    file.write_text(ad_of(listener))
    assert power.main("power", [str(file)]) == 0
    assert listener.recvfrom(1024)[0] == PACKET


def test_a_hardware_address_is_enough_and_the_mask_is_of_this_hosts_subnet(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "ANYWHERE", "127.0.0.1")
    assert power.main("power", ["-m", MAC, "-s", "255.0.0.0", "-p", str(listener.getsockname()[1])]) == 0
    assert listener.recvfrom(1024)[0] == PACKET


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "00:16"], "'00:16' is no hardware address"),
        (["-m", MAC, "-s", "24"], "'24' is no subnet mask"),
        (["-m", MAC, "-s", "255.0.0.0", "-p", "70000"], "70000 is no port"),
        (["/nothing/here"], "cannot open file /nothing/here"),
        (["one", "two"], "only one file can be given"),
    ],
)
def test_what_cannot_be_sent_is_an_error_that_says_why(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power, "ANYWHERE", "127.0.0.1")
    assert power.main("power", words) == 1
    assert said in capsys.readouterr().err


def test_an_ad_without_a_hardware_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('Name = "slot1@n"\n'))
    assert power.main("power", []) == 1
    assert "the ad has no HardwareAddress" in capsys.readouterr().err
