"""ClassAds: the language of policies, and the ads that every daemon and tool trades in.

ad = ClassAd({"RequestCpus": 2, "Requirements": expr("TARGET.Memory > 1024")})
ad.eval("Requirements", target=machine)
"""

from pool.classad.eval.above import ABOVE
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import Expr, attr, conjoin, expr
from pool.classad.eval.frame import Frame
from pool.classad.eval.match import accepts, is_match, rank
from pool.classad.forms.new_form import parse_ad
from pool.classad.forms.old_form import parse_long, parse_longs
from pool.classad.syntax.unparse import quote
from pool.classad.values.value import ERROR, UNDEFINED, AbsTime, Error, Member, RelTime, Undefined, Value


def _enter_builtins() -> None:
    """Most tools never call a function."""
    import pool.classad.builtins  # noqa: F401


def _surround(left: Frame, right: Frame) -> Frame:
    """Few expressions look at the match ad."""
    from pool.classad.eval.surroundings import surround

    return surround(left, right)


ABOVE.enter_builtins = _enter_builtins
ABOVE.surround = _surround

__all__ = [
    "ERROR",
    "UNDEFINED",
    "AbsTime",
    "ClassAd",
    "Error",
    "Expr",
    "Member",
    "RelTime",
    "Undefined",
    "Value",
    "accepts",
    "attr",
    "conjoin",
    "expr",
    "is_match",
    "parse_ad",
    "parse_long",
    "parse_longs",
    "quote",
    "rank",
]
