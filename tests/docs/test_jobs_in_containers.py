"""docs/jobs-in-containers.md, with a scripted engine in place of docker's."""

from __future__ import annotations

import re

from pool.config import load_config
from pool.config.knobs import find
from tests.docs import pages
from tests.fakes.engine import VERSION, scripted_engine
from tests.whole.real_pool import real_pool

PAGE = "jobs-in-containers.md"
APPTAINER = """#!/bin/sh
# Runs on this host what stands behind the image; what is in an image that is a directory comes first.
[ "$1" = --version ] && { echo "apptainer version 1.3.0"; exit 0; }
[ "$1" = build ] && exec cp -r "$3" "$2"
[ "$3" = test ] && exit 0
while [ "$1" != -C ]; do shift; done
shift
while [ "${1#-}" != "$1" ] || [ "$1" = tmp ]; do shift; done
[ -e "$1" ] || exit 255
[ -x "$1$2" ] && exec "$1$2"
shift
exec "$@"
"""


def test_every_example_of_the_page_does_what_it_says() -> None:
    with scripted_engine("debian:latest") as engine, real_pool(start=False, POLLING_INTERVAL="1") as pool:
        del pool.settings["DOCKER"]  # the page's configuration says what it is
        apptainer = pool.directory / "apptainer"
        apptainer.write_text(APPTAINER)
        apptainer.chmod(0o755)
        places = {
            "/usr/bin/docker": str(engine.program),
            "/usr/bin/apptainer": str(apptainer),
            '/srv/reference:/reference:ro"': f'{pool.directory}:/reference:ro"',
            "Docker version 28.2.2, build e6534b4": VERSION,
        }
        examples = pages.blocks(PAGE, places)
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pool.until(lambda: all(ad.eval_bool("HasDocker") for ad in pool.slots()) and pool.slots(), "HasDocker")
        pool.until(lambda: all(ad.eval_bool("HasSIF") for ad in pool.slots()), "HasSIF")
        pages.perform(examples, pool)
        logs = "".join(path.read_text() for path in (pool.directory / "log").glob("StarterLog.slot*"))
        assert f"-B {pool.directory}:/reference:ro " in logs
        created = [" ".join(words) for words in engine.calls("create")]
        assert all("--volume /srv/reference:/reference:ro" in words for words in created)
        assert not any("/srv/results" in words for words in created)
        assert all("--ulimit core=0" in words and "--shm-size 67108864" in words for words in created)


def test_the_knobs_of_the_page_exist() -> None:
    text = (pages.PAGES / PAGE).read_text()
    known = load_config([], environ={})
    for name in set(re.findall(r"\b(?:DOCKER|USE_DEFAULT|DEFAULT_CONTAINER|SUBMIT|SINGULARITY)_[A-Z_]+\b", text)):
        generic = re.sub(r"^DOCKER_VOLUME_DIR_(?:REFERENCE|RESULTS)", "DOCKER_VOLUME_DIR_X", name)
        assert find(generic) is not None, (name, known)
