"""`python -m daemons.libexec.gpu_discovery`: the discovery for a startd, in a process that a library may kill."""

from __future__ import annotations

import os
import sys

from pool.base.errors import UserError
from pool.gpus.discover import GpuLibraries, discover, parse_options

if __name__ == "__main__":
    try:
        found = discover(parse_options(sys.argv[1:]), GpuLibraries(), os.environ)
    except UserError as error:
        sys.exit(str(error))
    sys.stdout.write("".join(f"{line}\n" for line in found))
