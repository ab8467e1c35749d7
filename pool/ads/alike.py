"""Ads of which thousands are kept and which are nearly one: a slot's ad of each running job, as its schedd keeps it.

A row of values (`kept`) is 1.6 kB for a slot, most of it the same as in other slots' rows.
"""

from __future__ import annotations

from pool.ads.kept import KeptAd
from pool.classad import ClassAd


class AlikeAd:
    """An ad as it was when this was made: what differs between it and the first ad that has the same names."""

    __slots__ = ("_model", "_own")

    def __init__(self, ad: ClassAd) -> None:
        kept = KeptAd(ad)
        model = kept.form.model or kept
        places = [at for at, value in enumerate(kept.values) if value is not model.values[at]]
        if 3 * len(places) > len(kept.values):
            model, places = kept, []
        self._model = model
        self._own = tuple([part for at in places for part in (at, kept.values[at])])
        """Places and values, by turns."""

    def ad(self) -> ClassAd:
        """The ad; whoever has it may change it."""
        values, own = [*self._model.values], self._own
        for at, value in zip(own[::2], own[1::2], strict=True):
            values[at] = value
        return ClassAd(attrs=self._model.form.table(values))
