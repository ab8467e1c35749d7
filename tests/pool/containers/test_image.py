"""Which image a job wants, what it is called, and which images make room."""

from __future__ import annotations

from typing import Any

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.containers.image import (
    StoredImage,
    is_image_name,
    own_name,
    real_name,
    stored_images,
    to_remove,
    total_size,
    wanted_image,
    with_tag,
)
from pool.containers.volumes import volumes_of
from pool.execute.exit import Hold

NOBODY = ClassAd()


@pytest.mark.parametrize(
    ("job", "image"),
    [
        ({"WantDocker": True, "DockerImage": "debian"}, "debian"),
        ({"WantContainer": True, "WantDockerImage": True, "ContainerImage": "docker://debian:12"}, "debian:12"),
        ({"WantContainer": True, "WantDockerImage": True, "DockerImage": "docker://r:5000/x"}, "r:5000/x"),
        ({"DockerImage": "debian"}, None),
        ({"WantDocker": True, "DockerImage": "debian", "JobUniverse": 10}, None),
        ({}, None),
    ],
)
def test_the_image_of_a_job(job: dict[str, Any], image: str | None) -> None:
    assert wanted_image(ClassAd(job), NOBODY, {}) == image


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"WantDocker": True}, "names no image"),
        ({"WantDocker": True, "DockerImage": "a", "DockerSendCredentials": True}, "docker_send_credentials is true"),
        ({"WantContainer": True, "WantSIF": True, "ContainerImage": "a.sif"}, "a.sif is a Singularity image file"),
        ({"WantContainer": True, "WantSandboxImage": True, "ContainerImage": "dir"}, "dir is an unpacked image"),
    ],
)
def test_images_that_no_engine_here_runs(job: dict[str, Any], words: str) -> None:
    hold = wanted_image(ClassAd(job), NOBODY, {})
    assert isinstance(hold, Hold)
    assert hold.code == 35
    assert words in hold.reason


def test_the_owner_puts_jobs_that_ask_for_nothing_into_an_image() -> None:
    knobs = {"USE_DEFAULT_CONTAINER": 'TARGET.Owner == "bob"', "DEFAULT_CONTAINER_IMAGE": '"docker://debian"'}
    assert wanted_image(ClassAd({"Owner": "bob"}), NOBODY, knobs) == "debian"
    assert wanted_image(ClassAd({"Owner": "eve"}), NOBODY, knobs) is None
    for nothing in ("", "undefined", "17"):
        assert wanted_image(ClassAd({"Owner": "bob"}), NOBODY, {**knobs, "DEFAULT_CONTAINER_IMAGE": nothing}) is None


@pytest.mark.parametrize(
    ("image", "tagged"),
    [
        ("debian", "debian:latest"),
        ("debian:12", "debian:12"),
        ("r:5000/debian", "r:5000/debian:latest"),
        ("r:5000/debian:12", "r:5000/debian:12"),
        ("debian@sha256:abc", "debian@sha256:abc"),
    ],
)
def test_a_name_without_a_tag_means_latest(image: str, tagged: str) -> None:
    assert with_tag(image) == tagged


@pytest.mark.parametrize("image", ["debian:12", "r.org:5000/a/debian:latest", "debian@sha256:abc", "a/b@sha256:abc"])
def test_the_second_name_of_an_image_leads_back_to_it(image: str) -> None:
    own = own_name(image, "alice@example.org")
    assert own.startswith("htcondor.org/alice_at_example.org/")
    assert ":" not in own.rpartition("/")[0]
    assert real_name(own) == image


def test_users_whose_names_do_not_fit_are_still_told_apart() -> None:
    names = {own_name("debian:12", user) for user in ("Al@x", "al@x", "_al@x", "AL@x")}
    assert len(names) == 4
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize("image", ["", "-v", "--privileged", "a b", "a\nb", "a\0"])
def test_what_is_no_name(image: str) -> None:
    assert not is_image_name(image)


LISTED = """\
htcondor.org/alice_at_x/debian:12 aaaaaaaaaaaa 179MB
debian:12 aaaaaaaaaaaa 179MB
htcondor.org/bob_at_x/debian:12 aaaaaaaaaaaa 179MB
htcondor.org/bob_at_x/old:latest bbbbbbbbbbbb 10MB
others:latest cccccccccccc 5GB
<none>:<none> dddddddddddd 1GB
htcondor.org/bob_at_x/new:latest eeeeeeeeeeee 1.5GB
"""
TAGGED = """\
sha256:aaaaaaaaaaaa111 2026-02-01T00:00:00Z
sha256:bbbbbbbbbbbb111 2026-01-01T00:00:00Z
sha256:eeeeeeeeeeee111 2026-03-01T00:00:00Z
"""


def test_images_that_were_not_used_for_the_longest_make_room() -> None:
    images = stored_images(LISTED, TAGGED)
    assert len(images) == 6
    assert to_remove(images, 4) == []
    assert [image.name for image in to_remove(images, 3)] == ["htcondor.org/bob_at_x/old:latest"]
    assert [image.id[:1] for image in to_remove(images, 2)] == ["b", "a", "a"]
    assert len(to_remove(images, 0)) == 4
    assert to_remove([StoredImage("others:latest", "c")], 0) == []
    assert total_size(images) == (179 + 10 + 1536) << 20


def test_mounts() -> None:
    knobs = {
        "DOCKER_MOUNT_VOLUMES": "SOME_DIR, Another_Dir THIRD MISSING",
        "DOCKER_VOLUME_DIR_SOME_DIR": "/path1",
        "DOCKER_VOLUME_DIR_SOME_DIR_MOUNT_IF": 'WantSomeDirMounted && Owner == "smith"',
        "DOCKER_VOLUME_DIR_ANOTHER_DIR": "/path/to/no2:/inside:ro",
        "DOCKER_VOLUME_DIR_THIRD": "/third",
        "MOUNT_UNDER_SCRATCH": '"/tmp,/var/tmp"',
    }
    job = ClassAd({"Owner": "smith", "WantSomeDirMounted": True, "MountUnderScratch": "/data"})
    where = {"sandbox": "/e/dir_1", "inside": "/e/dir_1"}
    found = volumes_of(job, NOBODY, knobs, directory="/home/smith", **where)
    assert found.mounts == (
        "/e/dir_1:/e/dir_1",
        "/home/smith:/home/smith",
        "/e/dir_1/tmp:/tmp",
        "/e/dir_1/var/tmp:/var/tmp",
        "/e/dir_1/data:/data",
        "/path1:/path1",
        "/path/to/no2:/inside:ro",
        "/third:/third",
    )
    assert found.made == ("/e/dir_1/tmp", "/e/dir_1/var/tmp", "/e/dir_1/data")
    assert found.problems == ("DOCKER_MOUNT_VOLUMES names MISSING, and DOCKER_VOLUME_DIR_MISSING is not set",)
    for other in ({"Owner": "smith"}, {"Owner": "eve", "WantSomeDirMounted": True}):
        mounts = volumes_of(ClassAd(other), NOBODY, knobs, directory="/e/dir_1", **where).mounts
        assert "/path1:/path1" not in mounts


@pytest.mark.parametrize(
    ("job", "directory"),
    [({}, "/a:b"), ({"MountUnderScratch": "data"}, "/e"), ({"MountUnderScratch": "/a:/etc"}, "/e")],
)
def test_mounts_that_are_refused(job: dict[str, Any], directory: str) -> None:
    with pytest.raises(UserError):
        volumes_of(ClassAd(job), NOBODY, {}, sandbox="/e", inside="/e", directory=directory)
