"""From a job to its container: whether it wants one, and all that is decided about it before the engine is asked."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from daemons.host import sandbox
from daemons.host.account import Account, acting_as
from daemons.host.child_settings import StarterSettings
from daemons.host.gpus import gpu_numbers
from daemons.host.process_limit import processes_of
from daemons.starter.launch.context import Context
from daemons.starter.launch.terms import Terms
from daemons.starter.report.result import HoldJob
from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.containers.create import ContainerPlan, command_of, container_name, moved
from pool.containers.devices import gpu_devices
from pool.containers.engine import is_true, knob, program_words
from pool.containers.image import is_image_name, wanted_image, with_tag
from pool.containers.volumes import volumes_of
from pool.execute.exit import Hold, cannot_enter
from pool.execute.plan import RunPlan
from pool.execute.quoting import arguments_of
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.starter import RunJob


def image_of(job: ClassAd, slot: ClassAd, settings: StarterSettings) -> str | None:
    """The image that the job runs in, if it does; Held when this machine cannot run its kind."""
    wanted = wanted_image(job, slot, settings.docker)
    if isinstance(wanted, Hold):
        raise HoldJob(wanted)
    if wanted is not None and not is_image_name(wanted):
        raise HoldJob(Hold(f"{wanted!r} is not the name of an image", HoldCode.INVALID_DOCKER_IMAGE))
    return wanted


def put_into(
    image: str,
    terms: Terms,
    plan: RunPlan,
    account: Account,
    request: RunJob,
    job: ClassAd,
    slot: ClassAd,
    context: Context,
) -> ContainerPlan:
    """All that is decided about the container. Held or UserError say what of the job stands against it."""
    settings = context.settings
    home = sandbox.path_of(settings.execute, settings.number)
    inside = (job.eval_str("ContainerTargetDir") or "").rstrip("/") or home
    if not inside.startswith("/"):
        raise UserError(f"container_target_dir is {inside}", expected="an absolute path")
    volumes = volumes_of(job, slot, settings.docker, sandbox=home, inside=inside, directory=plan.directory)
    for problem in volumes.problems:
        context.log.always(problem)
    _make_directories(volumes.made, home, plan.directory, account)
    return ContainerPlan(
        name=container_name(str(request.job_id), settings.slot.partition("@")[0], settings.number),
        image=with_tag(image),
        uid=account.uid,
        gid=account.gid,
        groups=tuple(group for group in account.groups if group),
        execute=settings.execute,
        starter_pid=settings.number,
        directory=inside if plan.directory == home else plan.directory,
        command=command_of(job, transfers=plan.transfers),
        arguments=tuple(arguments_of(job)),
        environment=moved(plan.environment, home, inside),
        mounts=volumes.mounts,
        cpus=terms.cpus,
        processes=processes_of(settings, slot, job),
        devices=_devices(slot, settings.docker),
        reads_input=plan.stdin != "/dev/null",
        # A podman that is not root's maps the user to the container's root, unless it is told to keep the ids.
        keeps_ids=os.geteuid() != 0 and "podman" in program_words(knob(settings.docker, "DOCKER"))[-1],
    )


def _make_directories(made: tuple[str, ...], home: str, directory: str, account: Account) -> None:
    """Make what is mounted, as the job's account and step by step: an engine, which is root, would follow any link."""
    with acting_as(account):
        if directory != home:
            try:
                os.stat(os.path.join(directory, "."))
            except OSError as error:
                raise HoldJob(cannot_enter(directory, error.errno or 2)) from None
        for path in made:
            at = home
            for part in os.path.relpath(path, home).split("/"):
                at = os.path.join(at, part)
                try:
                    os.mkdir(at, 0o755)
                except FileExistsError:
                    pass
                if not stat.S_ISDIR(os.lstat(at).st_mode):
                    raise UserError(f"{at} is in the way of a private directory of the container")
            os.chmod(at, 0o1777)


def _devices(slot: ClassAd, knobs: Mapping[str, str]) -> tuple[str, ...]:
    """The devices of the slot's GPUs."""
    assigned = slot.eval_str("AssignedGPUs") or ""
    if not assigned:
        return ()
    everything = is_true(knob(knobs, "DOCKER_MAP_ALL_GPUS"), default=False)
    return tuple(gpu_devices(assigned, gpu_numbers(), everything=everything))
