"""The new form: `[ a = 1; b = a + 1 ]`."""

from __future__ import annotations

from pool.base.errors import ClassAdError
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import attrs_of
from pool.classad.values.environment import ENV


def parse_ad(text: str, *, file: str = "ad") -> ClassAd:
    """Read one ad in the new form; ClassAdError with line and column when it is none."""
    from pool.classad.syntax.parse import parse_ad_node  # tools get their ads from daemons, and seldom read one

    try:
        return ClassAd(attrs=attrs_of(parse_ad_node(text, strict=ENV.strict, file=file)))
    except RecursionError:
        raise ClassAdError(f"{file}: nested too deeply") from None
