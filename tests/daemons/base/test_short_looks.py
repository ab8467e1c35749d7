"""Python's garbage collector, in a process of its own: what it looks at when many objects are kept."""

from __future__ import annotations

import subprocess
import sys

KEEPING = """
import gc, weakref
from daemons.base.short_looks import AT_ALL_EACH_S, keep_looks_short

class Kept:
    pass

now, seen = 0.0, []
keep_looks_short(long_s=0.0, clock=lambda: now)
is_of_all = lambda phase, info: phase == "start" and info["generation"] == 2
gc.callbacks.append(lambda *look: is_of_all(*look) and seen.append(len(gc.get_objects())))
gc.collect()
kept = [Kept() for _ in range(200_000)]
kept[0].me = kept[0]
circle, single = weakref.ref(kept[0]), weakref.ref(kept[1])
gc.collect()
seen.clear()
kept += [Kept() for _ in range(400_000)]
assert seen and max(seen) < 100_000, f"looks at {seen} objects"
del kept[:2]
gc.collect()
assert single() is None and circle() is not None
now = AT_ALL_EACH_S
gc.collect()
assert circle() is None
print("both")
"""

FEW = """
import gc
from daemons.base.short_looks import keep_looks_short
keep_looks_short(long_s=10.0)
kept = [object() for _ in range(1000)]
for _ in range(10):
    gc.collect()
assert gc.get_freeze_count() == 0 and gc.get_threshold()[2] == 10
"""


def test_a_process_that_keeps_many_objects_looks_at_new_ones_and_at_all_from_time_to_time() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPING], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("both\n", "")


def test_a_process_with_few_objects_is_left_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FEW], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
