"""The GPUs of condor_status -gpus: which ones the slots offer, and how those of each kind are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from minipool.cli.pool_tools.status_print_as import gpus
from minipool.cli.pool_tools.status_totals import KINDS, lines
from pool.base.ids import is_number
from pool.classad import ClassAd


def offered(ad: ClassAd) -> list[tuple[str, ClassAd]]:
    """The GPUs that a slot has free, by id."""
    return [(gpu.eval_str("Id") or gpu.new(), gpu) for gpu in gpus(ad)]


def any_offered(ads: Iterable[ClassAd]) -> bool:
    """Whether any slot offers a GPU."""
    return any(offered(ad) for ad in ads)


def totals(ads: Sequence[ClassAd], *, key_width: int) -> str:
    """The states of the slots that offer GPUs, by kind of GPU; each GPU counts once."""
    return lines(KINDS["state"], _by_kind(ads), key_width=key_width)


def _by_kind(ads: Sequence[ClassAd]) -> Iterator[tuple[str, ClassAd, int]]:
    seen: set[str] = set()
    for ad in ads:
        for name, gpu in offered(ad):
            capability = gpu.eval_float("Capability")
            # A GPU may be offered by several slots (GPU_DISCOVERY_EXTRA = -divide): it is still one.
            if name not in seen and capability is not None:
                yield _kind(gpu, capability), ad, 1
            seen.add(name)


def _kind(gpu: ClassAd, capability: float) -> str:
    said = [f"Capability {capability:.1f}"]
    memory, name = gpu.eval_int("GlobalMemoryMb"), gpu.eval_str("DeviceName")
    if memory is not None:
        said.append(f"{memory / 1024:.1f} GB")
    if name is not None:
        said.append(_short(name))
    return ", ".join(said)


def _short(name: str) -> str:
    """A device's name without its maker and its memory: `NVIDIA A100-SXM4-40GB` is `A100-SXM4`."""
    name = name.removeprefix("NVIDIA ")
    bare = name.removesuffix("GB")
    return bare.rstrip("0123456789").removesuffix("-") if bare != name and is_number(bare[-1:]) else name
