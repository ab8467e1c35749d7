"""`condor_status -diagnose[:FILE]`: what would be asked, and which ads have come before they are laid out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.output.ad_output import long_form
from pool.base.errors import UserError
from pool.classad import ClassAd


def query_text(words: Sequence[str], mode: str, totals: str, query: ClassAd, projection: Sequence[str]) -> str:
    """The view, its totals, the query as an ad, and the attributes that are asked for."""
    shown = "".join(f"\n  {name}" for name in projection) if projection else " <NULL>"
    return (
        f"diagnose: {' '.join(words)} \n----------\n"
        f"Mode: {mode}\nTotals: {totals or 'none'}\n\n{long_form(query)}Projection:{shown}\n\n\n"
    )


def query_ad(ad_type: str, constraint: str | None, limit: int) -> ClassAd:
    """The query as an ad."""
    from pool.classad import expr

    ad = ClassAd({"MyType": "Query", "TargetType": ad_type, "Requirements": expr(constraint or "true")})
    if limit:
        ad["LimitResults"] = limit
    return ad


def write_ads(ads: Sequence[ClassAd], where: str) -> None:
    """Each ad below a line with its key, into a file; `-` is standard output, `-2` standard error."""
    text = "".join(f"#Key: / {ad.eval_str('Name', '')}\n{long_form(ad)}" for ad in ads)
    if where.startswith("-"):
        (sys.stderr if where == "-2" else sys.stdout).write(text)
        return
    try:
        with open(where, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"\nERROR: Failed to open file -diag output file ({error.strerror})") from None
