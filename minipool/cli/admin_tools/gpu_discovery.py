"""condor_gpu_discovery: which GPUs this machine has, as attributes that a startd can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

USAGE = """Usage: condor_gpu_discovery [options]
Show the GPUs of this machine as ClassAd attributes.
Where options are:
    -properties          also properties that jobs can ask for (require_gpus)
    -extra               more properties: clock rate, compute units, cores
    -dynamic             properties that change: temperature, fan, power, errors
    -nested              properties as an ad for each device (default)
    -not-nested          properties as attributes with a prefix
    -mixed               do not look for properties that all devices share
    -device <N>          only device N, by its index or id; may come again
    -tag <name>          the name of the resource, instead of GPUs
    -prefix <text>       the prefix of -not-nested and -by-index, instead of CUDA, GPU (HIP) or OCL (OpenCL)
    -short-uuid          ids are the first 8 digits of the UUID (default)
    -uuid                ids are whole UUIDs
    -by-index            ids are CUDA0, CUDA1, ...; OpenCL devices always have such ids, OCL0, OCL1, ...
    -simulate[:D[,N[,D2,N2...]]]   N devices of type D that are not there, where D is
                         0 - GeForce GT 330
                         1 - GeForce GTX 480
                         2 - Tesla V100-PCIE-16GB
                         3 - TITAN RTX
                         4 - A100-SXM4-40GB
                         5 - NVIDIA A100-SXM4-40GB MIG 3g.20gb
                         6 - NVIDIA A100-SXM4-40GB MIG 1g.5gb
                         7 - NVIDIA A100-SXM4-40GB MIG 3g.20gb, new names
                         8 - one of each
    -config              print in the syntax of the configuration
    -repeat [<N>]        list the devices N (2) times, for N jobs at a time on each
    -divide [<N>]        the same, and each gets an Nth of the memory
    -packed              repeat device by device, not the whole list
    -cron                leave out DetectedGPUs, for a cron job of the startd
    -cuda                look for CUDA devices
    -hip                 look for HIP devices (AMD's)
    -opencl              look for OpenCL devices, where those of other kinds asked for are not there;
                         without any of the three, the first kind of which there are some
    -fix-hip-guid <hex>  complete the UUIDs of ROCm 6 with this model, so that devices are known by them
    -dirty-environment   only what CUDA_VISIBLE_DEVICES names
    -verbose             say what is looked at
    -help                show this
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_gpu_discovery."""
    from pool.base.errors import UserError

    # HTCondor's option table is its own here (gpus/condor_gpu_discovery.cpp): -simulate:D,N fits no `Opt`.
    from pool.gpus.discover import GpuLibraries, discover, parse_options

    try:
        asked = parse_options(argv)
        if asked.help:
            sys.stdout.write(USAGE)
            return 0
        say = _tell if asked.verbose else _keep_quiet
        lines = discover(asked, GpuLibraries(), os.environ, say)
    except UserError as error:
        sys.stderr.write(f"Error: {error}\n{USAGE}")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _tell(text: str) -> None:
    sys.stderr.write(f"# {text}\n")


def _keep_quiet(text: str) -> None:
    pass
