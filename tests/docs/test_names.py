"""The knobs that pages speak of exist, and do something; the reference pages are made from the tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs
from docs.generate import PAGES
from pool.config import knobs
from pool.config.htcondors_own import HTCONDORS_OWN
from pool.config.places import HostFacts
from pool.dag.language.commands import KEYWORDS
from pool.dag.model import ALL_NODES

OTHERS = frozenset(
    (
        *(
            "POOL_DIR",
            "CONDOR_CONFIG",
            "CUDA_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
            "NVIDIA_VISIBLE_DEVICES",
            "MALLOC_ARENA_MAX",
            "LICENSE_SERVER",
            "STARTER_SLOT_NAME",
            "APPTAINER_DOCKER_USERNAME",
        ),  # environment
        *("IF_NEEDED", "ON_EXIT_OR_EVICT", "ON_SUCCESS", "SYS_RESOURCE", "X86_64"),  # values
        *(
            "STARTD_CRON",
            "STARTD_CRON_INTERFACE_VERSION",
            "STARTD_CRON_NAME",
            "JOB_LOAD",
            "MAX_JOB_LOAD",
        ),  # parts of knobs' names
        *("EVICT_CLAIM", "FETCH_WORK", "JOB_EXIT", "PREPARE_JOB", "PREPARE_JOB_BEFORE_TRANSFER", "REPLY_FETCH"),
        *("UPDATE_JOB_INFO", "JOB_GONE", "CPU_TIME", "JOB_DESCRIPTION", "JOB_ID"),
        *(
            "QUEUE_PROCS",
            "QUEUE_SIZE",
            "RUNNING_JOBS",
            "RUNNING_REST",
            "LASTING_JOBS",
            "WHAT_IF_JOBS",
            "DAG_CHAIN",
            "DAG_LOADED",
            "DAG_NOOP",
            "DAG_QUEUED",
            "DAG_QUICK",
            "HTCONDOR_SH",
            "PLAY_WITH",
            "BOINC_HOME",
        ),  # names in examples
        "WAIT_FOR_ALL",  # a ParallelShutdownPolicy
        *("SCALE_SIZES", "UPDATE_STARTD_AD", "INVALIDATE_STARTD_ADS"),  # of a benchmark, of condor_advertise
        *("DEFAULT_NUM_EXTRA_CHECKPOINTS", "LVM_CLEANUP_FAILURE_MAKES_BROKEN_SLOT"),  # HTCondor's, in its sources alone
    )
)
"""What looks like the name of a knob and is none of this pool's."""

WRITTEN = sorted(path for path in Path(docs.__path__[0]).glob("*.md") if path.name not in PAGES)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_page_speaks_of_knobs_that_exist_and_do_something(page: Path) -> None:
    words = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b(?![*<])", page.read_text()))
    facts = {*HostFacts({}, {}).names(), *HTCONDORS_OWN, *OTHERS, *KEYWORDS, ALL_NODES}
    assert sorted(word for word in words if knobs.find(word) is None and word not in facts) == []
    if page.name != "differences.md":
        assert sorted(word for word in words if (knob := knobs.find(word)) is not None and not knob.has_effect) == []
