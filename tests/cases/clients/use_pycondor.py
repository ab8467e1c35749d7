"""PyCondor: a submit file with a queue statement for each of its jobs, which have logs of their own; prints JSON."""

import json
import subprocess

import pycondor
from pycondor.utils import get_condor_version, get_queue

if __name__ == "__main__":
    with open("run.sh", "w") as file:
        file.write('#!/bin/sh\necho hello "$@"\nexit $1\n')
    subprocess.run(["chmod", "755", "run.sh"], check=True)
    directories = {name: name for name in ("error", "output", "log", "submit")}
    job = pycondor.Job(
        "example", "run.sh", **directories, request_memory="64MB", request_cpus=1, getenv=True, extra_lines=["+Mine = 3"]
    )
    for number in range(4):
        job.add_arg(f"{number} words", name=f"n{number}")
    job.build_submit(fancyname=False)
    for number in range(4):
        subprocess.run(["condor_wait", "-wait", "60", f"log/example_n{number}.log"], check=True, stdout=subprocess.DEVNULL)
    said = [open(f"output/example_n{number}.output").read() for number in range(4)]
    totals = [line for line in get_queue().decode().splitlines() if line.startswith("Total for query")]
    print(json.dumps({"version": get_condor_version(), "said": said, "totals": totals}), flush=True)
