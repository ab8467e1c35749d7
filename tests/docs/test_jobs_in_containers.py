"""docs/jobs-in-containers.md, with a scripted engine in place of docker's."""

from __future__ import annotations

import re

from pool.config import load_config
from pool.config.knobs import find
from tests.docs import pages
from tests.fakes.engine import VERSION, scripted_engine
from tests.whole.real_pool import real_pool

PAGE = "jobs-in-containers.md"


def test_every_example_of_the_page_does_what_it_says() -> None:
    with scripted_engine("debian:latest") as engine, real_pool(start=False, POLLING_INTERVAL="1") as pool:
        del pool.settings["DOCKER"]  # the page's configuration says what it is
        places = {"/usr/bin/docker": str(engine.program), "Docker version 28.2.2, build e6534b4": VERSION}
        examples = pages.blocks(PAGE, places)
        pages.install(examples, pool, pool.directory / "programs")
        pool.start()
        pool.until(lambda: all(ad.eval_bool("HasDocker") for ad in pool.slots()) and pool.slots(), "HasDocker")
        pages.perform(examples, pool)
        created = [" ".join(words) for words in engine.calls("create")]
        assert all("--volume /srv/reference:/reference:ro" in words for words in created)
        assert not any("/srv/results" in words for words in created)
        assert all("--ulimit core=0" in words and "--shm-size 67108864" in words for words in created)


def test_the_knobs_of_the_page_exist() -> None:
    text = (pages.PAGES / PAGE).read_text()
    known = load_config([], environ={})
    for name in set(re.findall(r"\b(?:DOCKER|USE_DEFAULT|DEFAULT_CONTAINER|SUBMIT)_[A-Z_]+\b", text)):
        generic = re.sub(r"^DOCKER_VOLUME_DIR_(?:REFERENCE|RESULTS)", "DOCKER_VOLUME_DIR_X", name)
        assert find(generic) is not None, (name, known)
