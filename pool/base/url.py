"""What is a URL and no path, and by which scheme it is moved.

Source: IsUrl() and getURLType() of HTCondor 25 (src/condor_utils/condor_url.cpp); RFC 3986, 3.1 for the characters.
"""

from __future__ import annotations

import re
from typing import Final

# A scheme alone (`file://`) is none, as there is nothing to move; one letter is enough for a scheme.
_URL: Final = r"(?s)([A-Za-z][A-Za-z0-9+.-]*)://."
_PARTS: Final = r"[+.-]"


def is_url(text: str) -> bool:
    """Whether the text is `scheme://something`."""
    return re.match(_URL, text) is not None


def scheme_of(url: str) -> str:
    """By what a plug-in is chosen, as it is spelt: `https`, also of `token+https://...` or `a.https://...`."""
    found = re.match(_URL, url)
    return re.split(_PARTS, found[1])[-1] if found else ""
