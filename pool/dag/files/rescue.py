"""Rescue and save files: which nodes are done, so that the graph can go on from there.

HTCondor's manual: automated-workflows/dagman-resubmit-failed and dagman-save-files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from pool.dag.course.course import Course, S

VERSION = "2.1.0"


def rescue_name(primary: str, number: int, *, several: bool = False) -> str:
    """`x.dag.rescue001`; of several DAG files `x.dag_multi.rescue001`."""
    return f"{primary}{'_multi' if several else ''}.rescue{number:03d}"


def rescue_lines(course: Course, at: float, *, reset_retries: bool = True) -> Iterator[str]:
    """A rescue file of the graph as it is; the course stands still until the last line has been taken."""
    yield f"# Rescue DAG file, created after running\n#   the {course.dag.file} DAG file\n"
    yield from _lines(course, at, reset_retries)


def save_lines(course: Course, node: int, at: float) -> Iterator[str]:
    """A save file, written as the node starts; the course stands still meanwhile."""
    yield f"# Save file written at Start Node {course.node(node).name}\n"
    yield from _lines(course, at, True)


def _lines(course: Course, at: float, reset_retries: bool) -> Iterator[str]:
    when = time.gmtime(at)  # in UTC, whatever the zone: the file may be read on another host
    moment = f"{when.tm_hour:02d}:{when.tm_min:02d}:{when.tm_sec:02d}"
    failed = [node for node in sorted(course.attempts) if course.states[node] == S.ERROR]
    yield f"# Created {when.tm_mon}/{when.tm_mday}/{when.tm_year} {moment} UTC\n"
    yield f"# Rescue DAG version: {VERSION}\n#\n"
    yield f"# Total number of Nodes: {course.total}\n"
    yield f"# Nodes premarked DONE: {course.done}\n"
    yield f"# Nodes that failed: {course.failed}\n"
    yield "#   " + "".join(f"{course.node(node).name}," for node in failed) + "<ENDLIST>\n\n"
    for node, this in enumerate(course.dag.nodes):
        state = course.states[node]
        # A FINAL node runs at every end.
        if this.kind != "FINAL":
            if state == S.DONE:
                yield f"DONE {this.name}\n"
            elif state == S.ERROR and _has_only_weak_children(course, node):
                yield f"# Failed node with only weak child dependencies:\nDONE {this.name}\n"
        if this.retry.times > 0 and not reset_retries:
            done = min(course.retries.get(node, 0), this.retry.times)
            left = this.retry.times - done
            unless = "" if this.retry.unless_exit is None else f" UNLESS-EXIT {this.retry.unless_exit}"
            yield f"# {done} of {this.retry.times} retries already performed; {left} remaining\n"
            yield f"RETRY {this.name} {left}{unless}\n"


def _has_only_weak_children(course: Course, node: int) -> bool:
    return bool(course.dag.weak and course.dag.weak[node]) and not course.dag.children[node]
