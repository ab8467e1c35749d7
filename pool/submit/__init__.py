"""The submit language: from a submit description to the ads of a cluster's jobs."""

from pool.submit.plan import SubmitPlan, read_submit
from pool.submit.world import SubmitWorld

__all__ = ["SubmitPlan", "SubmitWorld", "read_submit"]
