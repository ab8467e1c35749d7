"""nipype: its DAGMan plug-in runs a workflow with a fan-out, and waits for its end; prints JSON."""

import json
import os
from pathlib import Path

os.environ["NIPYPE_NO_ET"] = "1"  # it would tell its authors that it runs

from nipype import Node, Workflow
from nipype.interfaces.utility import Function


def double(number, out):
    with open(out, "a") as file:
        file.write(f"{number}\n")
    return 2 * number


def join(one, other, out):
    with open(out, "a") as file:
        file.write(f"{one}+{other}\n")
    return one + other


def node(name, work, names):
    made = Node(Function(input_names=[*names, "out"], output_names=["result"], function=work), name=name)
    made.inputs.out = str(Path("order").absolute())
    return made


if __name__ == "__main__":
    workflow = Workflow("flow", base_dir=str(Path("work").absolute()))
    first, left, right = (node(name, double, ["number"]) for name in ("first", "left", "right"))
    first.inputs.number = 1
    last = node("last", join, ["one", "other"])
    workflow.connect([
        (first, left, [("result", "number")]),
        (first, right, [("result", "number")]),
        (left, last, [("result", "one")]),
        (right, last, [("result", "other")]),
    ])  # fmt: skip
    specs = "request_memory = 200MB\nrequest_disk = 1MB"
    arguments = {"override_specs": specs, "dagman_args": "-maxidle 5 -f", "block": True}
    workflow.run(plugin="CondorDAGMan", plugin_args=arguments)
    (log,) = Path("work/flow/batch").glob("workflow-*.dag.metrics")
    metrics = json.loads(log.read_text())
    found = {"order": Path("order").read_text().split(), "done": metrics["jobs_succeeded"], "code": metrics["exitcode"]}
    print(json.dumps(found), flush=True)
