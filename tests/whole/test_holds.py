"""What holds jobs in a pool, and what a user then reads: moments that have passed, limits of releases, plug-ins that fail."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5


PLUGIN = """#!/bin/sh
if [ "$1" = -classad ]; then
    echo '11/23/2026 07:00:00 a line of a log'
    echo 'PluginType = "FileTransfer"'
    echo 'MultipleFileSupport = true'
    echo 'SupportedMethods = "chat,mood"'
    if grep -qs mood:// "$_CONDOR_JOB_AD"; then exit 1; fi
    exit 0
fi
if grep -q chat://exit/17 "$2"; then exit 17; fi
echo said > "$(dirname "$2")/said"
echo '[ TransferUrl = "chat://host/said"; TransferSuccess = true; TransferTotalBytes = 5 ]' > "$4"
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    knobs = {
        "PERIODIC_EXPR_INTERVAL": 1,
        "SYSTEM_MAX_RELEASES": 1,
        "JOB_EPOCH_HISTORY": "$(LOCAL_DIR)/epochs",
        "FILETRANSFER_PLUGINS": "curl_plugin, $(LOCAL_DIR)/chatty_plugin",
    }
    with real_pool(start=False, **knobs) as pool:
        plugin = pool.directory / "chatty_plugin"
        plugin.write_text(PLUGIN)
        plugin.chmod(0o755)
        pool.start()
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        methods = "HasFileTransferPluginMethods"
        pool.until(lambda: any("chat" in ad.eval_str(methods, "") for ad in pool.slots()), "what the plug-in can do")
        yield pool


@pytest.fixture
def home(pool: RealPool) -> Path:
    """A directory in which the submitting user may write."""
    return pool.directory / "home"


def test_a_job_whose_moment_has_passed_goes_on_hold(pool: RealPool, home: Path) -> None:
    text = f"executable = /bin/true\ndeferral_time = {int(time.time()) - 100}\nqueue\n"
    (ad,) = pool.until_status(pool.submit(text, cwd=home), HELD)
    assert (ad["HoldReasonCode"], ad["HoldReason"]) == (20, "Job missed deferred execution time")


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests' account owns the pool, and is bound by no limit")
def test_a_user_releases_a_job_no_more_often_than_the_site_lets_him(pool: RealPool, home: Path) -> None:
    cluster = pool.submit("executable = /bin/true\nrequirements = false\nqueue\n", cwd=home)
    for status in (IDLE, HELD):
        pool.tool("condor_hold", str(cluster))
        pool.tool("condor_release", f"{cluster}.0", check=False)
        (ad,) = pool.jobs(str(cluster))
        assert ad["JobStatus"] == status


def with_input(url: str) -> str:
    return f"""executable = /bin/cat
arguments = said
transfer_executable = false
should_transfer_files = YES
transfer_input_files = {url}
output = out
log = log.$(Cluster)
queue
"""


def epochs(pool: RealPool, cluster: int) -> list[ClassAd]:
    """The records of the cluster's transfers of input."""
    said = pool.tool("condor_history", "-epochs", "-type", "input", "-l", str(cluster))
    return list(parse_longs(said.splitlines()))


def test_a_plugin_that_says_more_than_its_ad_moves_files(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(with_input("chat://host/said"), cwd=home)
    pool.until_done(cluster)
    assert (home / "out").read_text() == "said\n"
    (record,) = pool.until(lambda: epochs(pool, cluster), "the record of its input")
    assert record.eval_str("TransferClass") == "INPUT"
    (invoked,) = record["InputPluginInvocations"]  # type: ignore[misc]
    expected = {"TransferClass": 1, "PluginBasename": "chatty_plugin", "Schemes": "chat", "ExitCode": 0}
    assert {name: invoked[name] for name in expected} == expected  # type: ignore[index]


def test_a_plugin_that_fails_holds_the_job_with_its_status_and_leaves_a_record(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(with_input("chat://exit/17"), cwd=home)
    (ad,) = pool.until_status(cluster, HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (13, 17 << 8)
    (record,) = pool.until(lambda: epochs(pool, cluster), "the record of its input")
    (invoked,) = record["InputPluginInvocations"]  # type: ignore[misc]
    assert (invoked["ExitCode"], invoked["Result"], invoked["ExitBySignal"]) == (17, 1, False)  # type: ignore[index]


def test_urls_that_do_not_come_are_in_the_record_each_with_its_reason(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(with_input("file://no-such.file/1, HTTP://127.0.0.1:1/2"), cwd=home)
    (ad,) = pool.until_status(cluster, HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (13, 1 << 8)
    assert '"HTTP",TARGET.HasFileTransferPluginMethods' in ad.text("Requirements")
    (record,) = pool.until(lambda: epochs(pool, cluster), "the record of its input")
    results: Any = record["InputPluginResultList"]
    urls = [one["TransferUrl"] for one in results]
    assert urls == ["file://no-such.file/1", "HTTP://127.0.0.1:1/2"]
    (invoked,) = record["InputPluginInvocations"]  # type: ignore[misc]
    assert (invoked["PluginBasename"], invoked["Schemes"]) == ("curl_plugin", "file,http")  # type: ignore[index]


@pytest.mark.slow
def test_a_job_that_no_machine_can_give_its_input_is_held_at_last(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(with_input("mood://host/said"), cwd=home)
    (ad,) = pool.until_status(cluster, HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (13, -1002)
    assert "chatty_plugin" in ad.eval_str("HoldReason", "")
    assert ad.eval_int("NumShadowExceptions", 0) > 1


def test_a_job_that_fails_sends_what_it_names_for_that(pool: RealPool) -> None:
    """FailureFiles."""
    here = pool.place("failing")
    text = """executable = /bin/sh
transfer_executable = false
arguments = "-c 'touch one two three success; exit $(code)'"
should_transfer_files = YES
when_to_transfer_output = ON_SUCCESS
transfer_output_files = success
+FailureFiles = "one, two, nothere"
queue code from (
  1
)
"""
    pool.until_done(pool.submit(text, cwd=here))
    assert sorted(path.name for path in here.iterdir()) == ["one", "two"]
