"""All that a job finds when it begins: its variables to the last one, its files, its limits, what it has of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pool.classad import ClassAd, parse_longs
from pool.config.load import load_config
from pool.execute.plan import ExecuteSurroundings, plan_job

from .bench import bench, settings_of

OF_HTCONDOR = {
    "_CONDOR_SCRATCH_DIR",
    "_CONDOR_SLOT",
    "_CONDOR_JOB_AD",
    "_CONDOR_MACHINE_AD",
    "_CONDOR_JOB_IWD",
    "BATCH_SYSTEM",
    "HOME",
    "SINGULARITY_CACHEDIR",
    "APPTAINER_CACHEDIR",
}
OF_THREADS = {
    "CUBACORES",
    "GOMAXPROCS",
    "JULIA_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "PYTHON_CPU_COUNT",
    "ROOT_MAX_THREADS",
    "TF_LOOP_PARALLEL_ITERATIONS",
    "TF_NUM_THREADS",
}
NOT_DOCUMENTED = {
    "_CONDOR_JOB_PIDS",
    "CONDOR_STARTER_PID",
    "_CHIRP_DELAYED_UPDATE_PREFIX",
    "_CONDOR_BIN",
    "_CONDOR_CHIRP_CONFIG",
    "TMPDIR",
    "TEMP",
    "TMP",
    "USER",
    "LOGNAME",
}
"""What HTCondor's starter sets without its manual saying so."""
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
AROUND = ExecuteSurroundings(sandbox="/execute/dir_7", slot="slot1_1", starter_pid=7, home="/home/u", user="u")


async def test_a_job_has_the_documented_variables_its_own_and_no_others() -> None:
    os.environ["OF_THE_DAEMONS"] = "secret"
    try:
        async with bench() as b:
            job = b.job_ad("env | cut -d= -f1", Environment="MINE=1 OMP_NUM_THREADS=9")
            end = await b.ended(await b.run(job))
            assert end.ad.eval_int("ExitCode") == 0
            names = set((b.iwd / "out").read_text().split()) - OF_THE_SHELL
    finally:
        del os.environ["OF_THE_DAEMONS"]
    assert OF_HTCONDOR - {"HOME"} <= names
    assert names - NOT_DOCUMENTED - OF_THREADS - OF_HTCONDOR == {"MINE"} | {n for n in names if n.startswith(GPU)}
    assert names >= OF_THREADS


GPU = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "_CONDOR_Assigned")


async def test_limits_umask_and_descriptors_are_the_jobs() -> None:
    command = "umask; ulimit -Sc; ulimit -Ss; ls /proc/$$/fd; stat -c '%a %U' $_CONDOR_SCRATCH_DIR"
    async with bench() as b:
        end = await b.ended(await b.run(b.job_ad(command, CoreSize=4096, StackSize=1 << 20)))
        assert end.ad.eval_int("ExitCode") == 0
        out = (b.iwd / "out").read_text().split("\n")
    assert out[0] == "0022"
    assert out[1] in ("8", "0")  # blocks of 512 bytes; none where the tests' own hard limit is none
    assert out[2] == "1024"
    assert out[3:6] == ["0", "1", "2"]
    assert out[-2].startswith("700 ")


@pytest.mark.parametrize(("said", "mode"), [("user", "700"), ("group", "750"), ("World", "755"), ("anybody", "700")])
async def test_who_may_read_a_sandbox(tmp_path: Path, said: str, mode: str) -> None:
    config = load_config([], overrides={"LOCAL_DIR": str(tmp_path), "JOB_EXECDIR_PERMISSIONS": said}, environ={})
    settings = settings_of(config, "slot1@host")
    async with bench(sandbox_mode=settings.sandbox_mode) as b:
        await b.ended(await b.run(b.job_ad("stat -c %a $_CONDOR_SCRATCH_DIR")))
        assert (b.iwd / "out").read_text() == f"{mode}\n"


async def test_the_ads_in_the_sandbox_say_what_the_job_has() -> None:
    command = "cp $_CONDOR_JOB_AD job; cp $_CONDOR_MACHINE_AD machine"
    async with bench() as b:
        end = await b.ended(await b.run(b.job_ad(command, Tag="mine"), memory=96))
        assert end.ad.eval_int("ExitCode") == 0
        (job,) = parse_longs((b.iwd / "job").read_text().splitlines())
        (machine,) = parse_longs((b.iwd / "machine").read_text().splitlines())
    assert job.eval_str("Tag") == "mine"
    assert (machine.eval_int("Memory"), machine.eval_int("Cpus")) == (96, 1)


async def test_only_a_wrapped_job_is_told_where_its_wrapper_may_complain() -> None:
    async with bench(start=False) as b:
        wrapper = b.root / "wrapper"
        wrapper.write_text('#!/bin/sh\nexec "$@"\n')
        wrapper.chmod(0o755)
        await b.start_starter(wrapper=str(wrapper))
        await b.ended(await b.run(b.job_ad("echo $_CONDOR_WRAPPER_ERROR_FILE")))
        assert (b.iwd / "out").read_text() == f"{b.sandbox}/.job_wrapper_failure\n"


def test_a_proxy_is_named_by_its_full_path() -> None:
    job = ClassAd({"Cmd": "/bin/true", "Iwd": "/home/u", "X509UserProxy": "proxy.pem", "ShouldTransferFiles": "YES"})
    environment = plan_job(job, ClassAd({"Cpus": 3}), AROUND).environment
    assert environment["X509_USER_PROXY"] == "/execute/dir_7/proxy.pem"
    assert {environment[name] for name in OF_THREADS} == {"3"}
    assert "X509_USER_PROXY" not in plan_job(ClassAd({"Cmd": "/bin/true"}), ClassAd(), AROUND).environment


def test_the_administrator_names_the_variables_of_threads_and_keeps_home(tmp_path: Path) -> None:
    knobs = {
        "STARTER_NUM_THREADS_ENV_VARS": "OMP_NUM_THREADS MY_THREADS",
        "STARTER_SETS_HOME_ENV": "false",
        "STARTER_JOB_ENVIRONMENT": "\"SITE=here LICENSE='a b'\"",
    }
    config = load_config([], overrides={"LOCAL_DIR": str(tmp_path), **knobs}, environ={})
    settings = settings_of(config, "slot1@host")
    assert (settings.thread_variables, settings.sets_home) == (["OMP_NUM_THREADS", "MY_THREADS"], False)
    assert settings.given_environment() == {"SITE": "here", "LICENSE": "a b"}
