"""The classic example of user functions: CLASSAD_USER_PYTHON_MODULES = pool.classad.extend.example_functions

condor_status -format "%s\\n" 'todays_date()' then prints the day.
"""

from __future__ import annotations

from pool.classad.extend.user import register
from pool.classad.values.environment import ENV, now
from pool.classad.values.times import show_moment
from pool.classad.values.value import ERROR, Value


@register
def todays_date() -> str:
    """Today, in local time, as 2024-02-29."""
    secs = now()
    return show_moment(secs + ENV.zone(secs, False))[:10]


@register
def double(number: Value) -> Value:
    """Twice a number."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return ERROR
    return number * 2
