"""A Java job on a real machine, where Java is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.whole.real_pool import real_pool

SOURCE = """public class Hello {
  public static void main(String[] words) {
    System.out.println("hello " + String.join(",", words) + " " + System.getProperty("asked") + " " + Other.said());
    System.exit(4);
  }
}
"""
OTHER = 'public class Other { static String said() { return "from a jar"; } }'


@pytest.mark.skipif(
    not all(map(shutil.which, ("java", "javac", "jar"))), reason="this machine has no Java development kit"
)
def test_a_java_job_runs_with_its_jars(tmp_path: Path) -> None:
    java = shutil.which("java")
    with real_pool(JAVA=java, NUM_CPUS=1) as pool:
        home = pool.directory / "home"
        home.mkdir()
        for name, text in (("Hello", SOURCE), ("Other", OTHER)):
            (home / f"{name}.java").write_text(text)
        for command in (["javac", "Hello.java", "Other.java"], ["jar", "cf", "other.jar", "Other.class"]):
            subprocess.run(command, cwd=home, check=True, capture_output=True)
        (home / "Other.class").unlink()
        home.chmod(0o777)
        pool.until(lambda: all("HasJava" in slot for slot in pool.slots()) and pool.slots(), "HasJava")
        slot = pool.machine()
        assert slot.eval_str("JavaVersion")
        text = (
            "universe = java\nexecutable = Hello.class\njar_files = other.jar\njava_vm_args = -Dasked=yes\n"
            "arguments = Hello a b\noutput = out\nerror = err\nlog = log\nqueue\n"
        )
        (ad,) = pool.until_done(pool.submit(text, cwd=home))
        assert (home / "out").read_text() == "hello a,b yes from a jar\n", (home / "err").read_text()
        assert ad.eval_int("ExitCode") == 4
