"""GPUs that are not there: `-simulate:D,N` makes N devices of type D, so that everything can be tried without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pool.base.errors import UserError
from pool.base.ids import is_number
from pool.gpus.device import Device, Fact, Megahertz, cores_per_unit


@dataclass(frozen=True)
class _Kind:
    name: str
    capability: str
    clock_mhz: int
    units: int
    ecc: bool
    memory_mb: int
    parts: tuple[int, ...] = ()
    """The memory of each MIG instance, where the device is divided."""
    old_names: bool = False


_LARGE, _SMALL = (20086, 20082), (4861,) * 7
KINDS: Final = (
    _Kind("GeForce GT 330", "1.2", 1340, 12, False, 1024),
    _Kind("GeForce GTX 480", "2.0", 1400, 15, False, 1536),
    _Kind("Tesla V100-PCIE-16GB", "7.0", 1380, 80, True, 24220),
    _Kind("TITAN RTX", "7.5", 1770, 72, False, 24220),
    _Kind("A100-SXM4-40GB", "8.0", 1410, 42, True, 40536),
    _Kind("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "8.0", 1410, 42, True, 20096, _LARGE, old_names=True),
    _Kind("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", 1410, 42, True, 4864, _SMALL),
    _Kind("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "8.0", 1410, 42, True, 20096, _LARGE),
)
DEVICES_MAX: Final = 4096


def simulated(said: str) -> list[Device]:
    """The devices of `D,N,D2,N2,...`; nothing said is one of the first kind, the number of kinds one of each."""
    kinds: list[_Kind] = []
    if not said.strip():
        kinds = [KINDS[0]]
    elif said.partition(",")[0].strip() == str(len(KINDS)):
        kinds = list(KINDS)
    else:
        words = said.rstrip(",").split(",")
        for at in range(0, len(words), 2):
            kinds += [_kind(words[at])] * _count(words[at + 1] if at + 1 < len(words) else "1")
    whole = [device for index, kind in enumerate(kinds) if not kind.parts for device in _devices(index, kind)]
    parts = [device for index, kind in enumerate(kinds) if kind.parts for device in _devices(index, kind)]
    # Undivided devices first and parts by UUID: the order in which HTCondor's tool shows them.
    return whole + sorted(parts, key=lambda device: device.uuid)


def _kind(word: str) -> _Kind:
    if not is_number(word.strip()) or int(word) >= len(KINDS):
        raise UserError(f"simulation must be in range of 0-{len(KINDS)}")
    return KINDS[int(word)]


def _count(word: str) -> int:
    if not is_number(word.strip()) or int(word) > DEVICES_MAX:
        raise UserError(f"cannot simulate {word} devices")
    return int(word)


def _devices(index: int, kind: _Kind) -> Iterator[Device]:
    if not kind.parts:
        yield Device(index, _uuid(index), _properties(index, kind, _uuid(index)), _extra(kind), _dynamic(index))
    for number, memory_mb in enumerate(kind.parts):
        new = f"MIG-{_uuid(index, number)}"
        uuid = f"MIG-GPU-{_uuid(index)}/{number}/0" if kind.old_names else new
        properties = _properties(index, kind, uuid) | {"GlobalMemoryMb": memory_mb}
        # A part has no name of its own in NVIDIA's library either.
        del properties["DeviceName"]
        extra = {name: fact for name, fact in _extra(kind).items() if name != "ComputeUnits"}
        yield Device(index, uuid, properties, extra)


def _uuid(index: int, part: int = 0x34) -> str:
    return f"{(index * 0x11 + 0xA0) & 0xFF:02x}2233{part:02x}-4445-5667-899a-abbccddeeff0"


def _properties(index: int, kind: _Kind, uuid: str) -> dict[str, Fact]:
    return {
        "Capability": float(kind.capability),
        "DeviceName": kind.name,
        "DevicePciBusId": f"0000:{index + 0x40:02x}:00.0",
        "DeviceUuid": uuid,
        "ECCEnabled": kind.ecc,
        "GlobalMemoryMb": kind.memory_mb,
    }


def _extra(kind: _Kind) -> dict[str, Fact]:
    return {
        "ClockMhz": Megahertz(kind.clock_mhz),
        "ComputeUnits": kind.units,
        "CoresPerCU": cores_per_unit(kind.capability),
    }


def _dynamic(index: int) -> dict[str, Fact]:
    return {
        "DieTempC": 345 + index,
        "EccErrorsDoubleBit": 0,
        "EccErrorsSingleBit": 0,
        "FanSpeedPct": 265 + index,
        "PowerUsage_mw": 285 + index,
    }
