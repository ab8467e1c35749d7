"""What an access point makes of new jobs: its transforms change them, its submit requirements refuse them, or warn.

Jobs of a cluster mostly agree, so the cluster's ad is transformed as its first job would be, and a job keeps for itself
only what then differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pool.base.errors import ClassAdError, SubmitError, UserError
from pool.base.words import split_list, truth_word
from pool.classad import UNDEFINED, ClassAd, Expr, Undefined, expr
from pool.classad.eval.ad import same
from pool.classad.values.truth import is_true
from pool.jobs.vocabulary.own_attributes import NOBODYS_TO_SET
from pool.transforms.transform import Complain, Knob, Transform, read_transform


class AdmissionKnobs(Protocol):
    """What is read of the configuration."""

    def __getitem__(self, name: str, /) -> str | None: ...

    def raw(self, name: str, /) -> str | None: ...


@dataclass(frozen=True)
class SubmitRequirement:
    """One condition on new jobs."""

    name: str
    condition: Expr
    reason: Expr | None = None
    only_warns: bool = False


@dataclass(frozen=True)
class SubmitRules:
    """The rules, in order."""

    transforms: Sequence[Transform] = ()
    requirements: Sequence[SubmitRequirement] = ()
    knob: Knob = lambda name: None
    fixed: frozenset[str] = NOBODYS_TO_SET
    """Attributes that no transform changes, in lower case: they say whose job it is, and which."""
    ignored: Sequence[str] = field(default=())
    """What of the configuration cannot be read, for the log."""

    def __bool__(self) -> bool:
        return bool(self.transforms or self.requirements)

    # ---- transforms

    def transform(self, ad: ClassAd, complain: Complain) -> set[str]:
        """Change a job's ad; the names of what was changed, in lower case."""
        touched: set[str] = set()
        for one in self.transforms:
            if one.matches(ad):
                before = ad.copy()
                names = one.apply(ad, knob=self.knob, complain=complain)
                for name in names & self.fixed:
                    if name in before:
                        ad[name] = before[name]
                    elif name in ad.attrs:
                        del ad[name]
                touched |= names - self.fixed
        return touched

    def transform_cluster(self, ad: ClassAd, first: ClassAd, complain: Complain) -> set[str]:
        """Change a cluster's ad as its first job's would be, whose own attributes `first` has; what was changed."""
        view = first.copy()
        view.parent = ad.copy()
        touched = self.transform(view, complain)
        for name in touched:
            value = view.get(name)
            if name in view and not isinstance(value, Undefined):
                ad[_spelt(view, name)] = value
            elif name in ad:
                del ad[name]
        return touched

    def transform_job(
        self, own: ClassAd, before: ClassAd, after: ClassAd, touched: set[str], complain: Complain
    ) -> None:
        """Change a job's own attributes, whose cluster's ad was `before` and is now `after`."""
        own.parent = before
        view = own.copy()
        changed = self.transform(view, complain)
        own.parent = None
        for name in changed | touched:
            value = view.get(name)
            if name in after and name in view and same(after.get(name), value):
                if name in own:
                    del own[name]
            elif name in view:
                own[_spelt(view, name)] = value
            elif name in after:
                own[name] = UNDEFINED

    # ---- requirements

    def judge(self, job: ClassAd, schedd: ClassAd) -> str:
        """The last warning about a job, or nothing; SubmitError when it is refused."""
        warning = ""
        for one in self.requirements:
            value = _asked(one.condition, schedd, job)
            if is_true(value):
                continue
            if not isinstance(value, bool | int | float):
                raise _refused(f"Submit requirement {one.name} evaluated to non-boolean.")
            reason = None if one.reason is None else _asked(one.reason, schedd, job)
            said = reason if isinstance(reason, str) else f"Submit requirement {one.name} not met."
            if not one.only_warns:
                raise _refused(said)
            warning = said
        return warning


def admission(knobs: AdmissionKnobs, fixed: frozenset[str] = NOBODYS_TO_SET) -> SubmitRules:
    """The rules of a configuration; what cannot be read of them is left out, and named."""
    ignored: list[str] = []
    return SubmitRules(
        tuple(_transforms(knobs, ignored)),
        tuple(_requirements(knobs, ignored)),
        lambda name: knobs[name],
        fixed,
        ignored,
    )


def _names(knobs: AdmissionKnobs, knob: str) -> list[str]:
    return split_list(knobs[knob])


def _transforms(knobs: AdmissionKnobs, ignored: list[str]) -> list[Transform]:
    found = []
    for name in _names(knobs, "JOB_TRANSFORM_NAMES"):
        text = knobs.raw(f"JOB_TRANSFORM_{name}")
        if not text:
            ignored.append(f"JOB_TRANSFORM_{name} is not defined")
            continue
        try:
            found.append(read_transform(name, text))
        except UserError as error:
            ignored.append(f"JOB_TRANSFORM_{name}: {error}")
    return found


def _requirements(knobs: AdmissionKnobs, ignored: list[str]) -> list[SubmitRequirement]:
    found = []
    for name in _names(knobs, "SUBMIT_REQUIREMENT_NAMES"):
        knob = f"SUBMIT_REQUIREMENT_{name}"
        try:
            text, reason = knobs[knob], knobs[f"{knob}_REASON"]
            if not text:
                ignored.append(f"{knob} is not defined")
                continue
            warns = truth_word(knobs[f"{knob}_IS_WARNING"]) is True
            found.append(SubmitRequirement(name, expr(text), expr(reason) if reason else None, warns))
        except ClassAdError as error:
            ignored.append(f"{knob}: {error}")
    return found


def _refused(reason: str) -> SubmitError:
    return SubmitError(f"Failed to commit job submission into the queue.\nERROR: {reason}")


def _asked(what: Expr, schedd: ClassAd, job: ClassAd) -> object:
    """The value of an expression that speaks of the schedd as MY or SCHEDD, of the job as TARGET or JOB."""
    text = what.text.lower()
    if "job." in text or "schedd." in text:
        schedd = schedd.copy()
        schedd["JOB"], schedd["SCHEDD"] = job.flat(), schedd.copy()
    return what.eval(schedd, job)


def _spelt(ad: ClassAd, key: str) -> str:
    return ad.attrs.name_any(key)
