"""ClassAds: the language of policies, and the ads that every daemon and tool trades in.

ad = ClassAd({"RequestCpus": 2, "Requirements": expr("TARGET.Memory > 1024")})
ad.eval("Requirements", target=machine)
"""

from pool.classad.ad import ClassAd
from pool.classad.expression import Expr, attr, conjoin, expr
from pool.classad.forms.new_form import parse_ad
from pool.classad.forms.old_form import parse_long, parse_longs
from pool.classad.match import accepts, is_match, rank
from pool.classad.unparse import quote
from pool.classad.values import ERROR, UNDEFINED, AbsTime, Error, Member, RelTime, Undefined, Value

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
