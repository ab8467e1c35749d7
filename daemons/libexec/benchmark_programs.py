"""`condor_mips` and `condor_kflops`: how fast one core of this machine is, in figures that can stand beside HTCondor's.

Mips is integer work: a loop of arithmetic, comparisons and copies of strings, compiled with the machine's C compiler.
Its unit was chosen so that it shows what HTCondor's Dhrystone shows. Where there is no compiler the same unit is taken
for a loop of the interpreter, which is less exact: it measures the interpreter too. KFlops is what the machine's linear
algebra reaches with one core for 1,000 equations; HTCondor's Linpack, for 100 and without vector units, shows less.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

MIPS, KFLOPS = "mips", "kflops"
ROUNDS_PER_MIP: Final = 1790.0
"""How many rounds of the compiled loop a machine of one Mip does in a second."""
STEPS_PER_MIP: Final = 700.0
"""How many steps of the interpreted one."""
STEPS: Final = 2_000_000
EQUATIONS: Final = 1000
TIMES: Final = 3
COMPILE_S: Final = 20.0
RUN_S: Final = 30.0

_LOOP: Final = r"""
#include <stdio.h>
#include <string.h>
#include <time.h>

struct record { struct record *next; int kind, number; char text[31]; };

static __attribute__((noinline)) int compare(const char *one, const char *other, int round)
{
    return strcmp(one, other) > 0 ? round + 7 : round - 3;
}

static __attribute__((noinline)) void copy(struct record *to, const struct record *from, int round)
{
    *to = *from;
    to->number = from->number * 5 + round / (1 + (round & 7));
    strcpy(to->text, (round & 1) ? "A BENCHMARK, ITS FIRST STRING." : "A BENCHMARK, SECOND OF STRINGS");
}

int main(void)
{
    enum { ROUNDS = 4000000 };
    static struct record one, other;
    static int table[50];
    struct timespec began, ended;
    volatile int kept;
    int sum = 0;

    strcpy(one.text, "A BENCHMARK, ITS FIRST STRING.");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    for (int round = 0; round < ROUNDS; round++) {
        copy(&other, &one, round);
        sum += compare(one.text, other.text, round);
        table[round % 50] += sum;
        one.number = table[(unsigned) sum % 50] & 0xffff;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    kept = sum;
    (void) kept;
    printf("%.0f\n", ROUNDS / (ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9));
    return 0;
}
"""


def mips() -> int:
    """Mips of one core."""
    rounds = _compiled_rounds()
    return round(max(1.0, rounds / ROUNDS_PER_MIP if rounds else _interpreted_steps() / STEPS_PER_MIP))


def _compiled_rounds() -> float:
    """Rounds of the compiled loop in a second; 0 where nothing can be compiled, or the result not be run."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return 0.0
    with tempfile.TemporaryDirectory(prefix="condor_mips") as directory:
        program = Path(directory) / "loop"
        command = [compiler, "-O2", "-x", "c", "-", "-o", str(program)]
        try:
            subprocess.run(command, input=_LOOP.encode(), capture_output=True, timeout=COMPILE_S, check=True)
            return max(
                float(subprocess.run([program], capture_output=True, timeout=RUN_S, check=True).stdout)
                for _ in range(TIMES)
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return 0.0


def _interpreted_steps() -> float:
    best_s = float("inf")
    for _ in range(TIMES):
        began, total = time.process_time(), 0
        for number in range(STEPS):
            total = (total + number * 3) & 0xFFFF
        best_s = min(best_s, time.process_time() - began)
    return STEPS / max(best_s, 1e-6)


def kflops() -> int:
    """KFlops of one core."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        # Before numpy is imported, which reads them once.
        os.environ[name] = "1"
    import numpy as np

    rng = np.random.default_rng(1)
    matrix, right = rng.random((EQUATIONS, EQUATIONS)) + EQUATIONS * np.eye(EQUATIONS), rng.random(EQUATIONS)
    best_s = float("inf")
    for _ in range(TIMES):
        began = time.process_time()
        np.linalg.solve(matrix, right)
        best_s = min(best_s, time.process_time() - began)
    # Linpack's count for solving by LU factors.
    operations = 2 / 3 * EQUATIONS**3 + 2 * EQUATIONS**2
    return round(operations / max(best_s, 1e-6) / 1e3)


def main_mips() -> None:
    """The program `condor_mips`."""
    sys.stdout.write(f"Mips = {mips()}\n--\n")


def main_kflops() -> None:
    """The program `condor_kflops`."""
    sys.stdout.write(f"KFlops = {kflops()}\n--\n")


if __name__ == "__main__":
    {MIPS: main_mips, KFLOPS: main_kflops}[sys.argv[1]]()
