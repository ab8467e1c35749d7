"""`-json` where HTCondor has none: a list of ads in the form that the other tools print, or one object.

[                       {
{                         "Name": "alice"
  "Name": "alice"       }
}
]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pool.classad import ClassAd


def write_list(ads: Iterable[ClassAd | Mapping[str, Any]]) -> None:
    """Any number of things: a list, also when it is empty."""
    from minipool.cli.output.ad_output import write_all

    sys.stdout.writelines(write_all((_ad(one) for one in ads), "json", empty_json=True))


def write_object(ad: ClassAd | Mapping[str, Any]) -> None:
    """The one thing that was asked for."""
    from minipool.cli.output.ad_output import json_form

    sys.stdout.write(json_form(_ad(ad)))


def _ad(fields: ClassAd | Mapping[str, Any]) -> ClassAd:
    from pool.classad import ClassAd

    return fields if isinstance(fields, ClassAd) else ClassAd(fields)
