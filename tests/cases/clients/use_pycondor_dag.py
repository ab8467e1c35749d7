"""PyCondor: a DAG of jobs with arguments, retries and a DAG within; prints JSON."""

import json
import os
import subprocess
from pathlib import Path

import pycondor

PROGRAM = """#!/bin/sh
echo $1 >> order
test $1 != three || test -e failed || { touch failed; exit 1; }
"""

if __name__ == "__main__":
    Path("run.sh").write_text(PROGRAM)
    Path("run.sh").chmod(0o755)
    where = {name: name for name in ("error", "output", "log", "submit")}
    dag = pycondor.Dagman("whole", submit="submit", extra_lines=["PRIORITY first_arg_0 3"])
    lines = {"extra_lines": ["request_memory = 16MB", "request_disk = 1MB"], "getenv": True}
    first = pycondor.Job("first", "run.sh", **where, **lines, dag=dag)
    many = pycondor.Job("many", "run.sh", **where, **lines, dag=dag, retry=2)
    first.add_arg("one")
    many.add_args(["two", "three"])
    many.add_arg("four five", name="n4")
    many.add_parent(first)
    inner = pycondor.Dagman("inner", submit="submit", dag=dag)
    inner.add_job(pycondor.Job("deep", "run.sh", **where, **lines, arguments="six"))
    inner.add_parent(many)
    last = pycondor.Job("last", "run.sh", **where, dag=dag, extra_lines=["arguments = seven", *lines["extra_lines"]])
    last.add_parent(inner)
    dag.build(fancyname=False)
    dag.submit_dag(submit_options="-maxjobs 3 -f")
    subprocess.run(["condor_wait", "-wait", "60", "submit/whole.submit.dagman.log"], check=True, stdout=subprocess.DEVNULL)
    found = {"order": Path("order").read_text().split(), "output": sorted(os.listdir("output"))}
    print(json.dumps(found), flush=True)
