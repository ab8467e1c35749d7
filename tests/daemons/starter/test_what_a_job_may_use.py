"""The page docs/what-a-job-may-use.md: each example of it is read, and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daemons.host.child_settings import StarterSettings
from daemons.starter.launch.terms import renice
from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr
from pool.config.load import load_config
from pool.execute.isolation import private_directories
from pool.execute.scratch import DEFAULT_ORDER, Hide, ScratchKind, hide_mode, kinds_in_order, over_disk

from .bench import bench, settings_of

PAGE = Path(__file__).parents[3] / "docs" / "what-a-job-may-use.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _settings(tmp_path: Path, containing: str) -> StarterSettings:
    (block,) = [block for block in _blocks("condor-config") if containing in block]
    overrides = {"LOCAL_DIR": str(tmp_path), "EXECUTE": str(tmp_path / "execute")}
    file = tmp_path / "config"
    file.write_text(block)
    config = load_config([str(file)], overrides=overrides, environ={})
    return settings_of(config, "slot1_2@host")


def test_accounts(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "SLOT2_USER")
    assert settings.fallback_account == "cndrusr1"
    assert re.fullmatch(settings.dedicated_accounts, settings.fallback_account)
    assert expr(settings.run_as_owner).eval(ClassAd()) is False
    assert _settings(tmp_path, "NOBODY_SLOT_USER").fallback_account == "slot1_2"
    staff = expr(_settings(tmp_path, "ALLOW_RUNAS_OWNER = TARGET").run_as_owner)
    assert [staff.eval(ClassAd(), ClassAd({"AcctGroup": group})) for group in ("staff", "x")] == [True, False]


def test_namespaces(tmp_path: Path) -> None:
    settings = _settings(tmp_path, '= "/tmp')
    assert settings.job_namespaces
    assert private_directories(settings.mount_under_scratch, ClassAd(), ClassAd()) == ["/tmp", "/var/tmp"]
    choice = _settings(tmp_path, "WantsSharedTmp").mount_under_scratch
    assert private_directories(choice, ClassAd({"WantsSharedTmp": True}), ClassAd()) == ["/var/tmp"]
    assert private_directories(choice, ClassAd(), ClassAd()) == ["/tmp", "/var/tmp"]
    assert _settings(tmp_path, "USE_PID_NAMESPACES").pid_namespaces


def test_limits(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "JOB_PROCESSES_MAX")
    assert (settings.memory_policy, settings.disable_swap, settings.processes_max) == ("hard", True, "1024 * Cpus")
    counted = _settings(tmp_path, "MEMORY_USAGE_METRIC")
    assert counted.counts_cache
    assert expr(counted.memory_metric).eval(ClassAd({"ResidentSetSize": 100 << 10})) == 110
    assert expr(counted.low_memory_expr).eval(ClassAd({"Memory": 4096})) == 2048
    assert expr(_settings(tmp_path, "ASSIGN_CPU").assign_cpus).eval(ClassAd()) is True
    assert _settings(tmp_path, "ENFORCE_CPU").cpu_affinity == [0, 1]
    nice = _settings(tmp_path, "RENICE").nice
    assert [renice(nice, ClassAd({"AcctGroup": group})) for group in ("nice-user", "physics")] == [19, 5]
    assert _settings(tmp_path, "MIN_TRACKING").tracking_gids == [750, 757]
    assert _settings(tmp_path, "USER_JOB_WRAPPER").wrapper == "/usr/local/libexec/job-wrapper"


@pytest.mark.parametrize(
    ("index", "knobs"),
    [
        (0, {"STARTD_ENFORCE_DISK_LIMITS": True}),
        (1, {"SCRATCH_FILE_SYSTEMS": ["ext4", "walk"]}),
        (2, {"LVM_VOLUME_GROUP_NAME": "condor_vg", "LVM_THICK_LV_MARGIN": 0.98, "LVM_USE_THIN_PROVISIONING": False}),
        (3, {"LVM_THINPOOL_NAME": "htcondor", "LVM_USE_THIN_PROVISIONING": True, "LVM_THIN_LV_EXTRA_SIZE_MB": 2000}),
        (4, {"LVM_BACKING_FILE_SIZE_MB": 10240}),
        (5, {"ENCRYPT_EXECUTE_DIRECTORY": True}),
    ],
)
def test_the_disk(tmp_path: Path, index: int, knobs: dict[str, object]) -> None:
    block = [block for block in _blocks("condor-config") if "ENFORCE_DISK" in block][index]
    file = tmp_path / "config"
    file.write_text(block)
    config = load_config([str(file)], overrides={"LOCAL_DIR": str(tmp_path)}, environ={})
    readers = {bool: config.bool, int: config.int, float: config.float, str: config.str, list: config.list}
    assert {name: readers[type(value)](name) for name, value in knobs.items()} == knobs
    kinds = kinds_in_order(config.list("SCRATCH_FILE_SYSTEMS"))
    assert kinds == [ScratchKind.EXT4, ScratchKind.WALK] if index == 1 else kinds == list(DEFAULT_ORDER)
    assert hide_mode(config.str("LVM_HIDE_MOUNT")) is Hide.AUTO


def test_the_page_names_every_kind_in_its_order_and_the_words_of_a_hold() -> None:
    page = PAGE.read_text()
    kinds = [ScratchKind(word) for word in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)]
    assert kinds == [*DEFAULT_ORDER, ScratchKind.TMPFS, ScratchKind.WALK]
    (said,) = re.findall(r"`(Job has exceeded allocated disk[^`]*)`", page)
    assert over_disk(1 << 30, int(1001.31 * (1 << 20))).reason == " ".join(said.split())


def test_who_may_look(tmp_path: Path) -> None:
    assert _settings(tmp_path, "EXECDIR_PERMISSIONS").sandbox_mode == 0o750


async def test_the_wrapper() -> None:
    (text,) = _blocks("sh")
    async with bench(start=False) as b:
        wrapper = b.root / "wrapper"
        wrapper.write_text(text)
        wrapper.chmod(0o755)
        await b.start_starter(wrapper=str(wrapper))
        end = await b.ended(await b.run(b.job_ad("echo $LICENSE_SERVER; pwd")))
        assert end.ad.eval_int("ExitCode") == 0
        assert (b.iwd / "out").read_text() == f"192.0.2.202:5012\n{b.sandbox}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [("17", "MOUNT_UNDER_SCRATCH = 17 does not evaluate to a string"), ('"tmp"', "MOUNT_UNDER_SCRATCH names 'tmp'")],
)
def test_what_is_no_list_of_directories_is_told(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        private_directories(text, ClassAd(), ClassAd())
