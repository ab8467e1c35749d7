"""The lines of which large graphs are made, taken one after another by one regular expression.

    JOB node file
    VARS node name="value" ...
    RETRY node times
    PARENT node CHILD node

A line that is written otherwise, or of which more is to be said than that it is true (a warning, an error, a name that
comes later), is left to the reader of all commands; so this knows no rule that is not there as well, and a test holds
the two together. A graph of such lines is read in half of the time.
"""

from __future__ import annotations

import re
from sys import intern
from typing import Final

from pool.dag.language.commands import RESERVED
from pool.dag.language.drafts import Draft, NodeDraft, Scope
from pool.dag.language.obey import ORDINARY
from pool.dag.language.settings import PLAIN_RETRIES
from pool.dag.language.source import Source
from pool.dag.model import Place, Variable

SUBDAG_SUFFIX: Final = ".condor.sub"
_NAME: Final = r"[^\s\"'\\+]+"
_PLAIN: Final = re.compile(
    rf"JOB ({_NAME}) ([^\s\"'\\{{@][^\s\"'\\]*)\n"
    rf"|VARS ({_NAME})((?: \w+=\"[^\"\\\n]*\")+)\n"
    rf"|RETRY ({_NAME}) ([12]?[0-9])\n"
    rf"|PARENT ({_NAME}) CHILD ({_NAME})\n"
)
"""Each of the four by the number of its last group."""
_JOB, _VARS, _RETRY, _PARENT = 2, 4, 6, 8
_PAIR: Final = re.compile(r"(\w+)=\"([^\"]*)\"")


def take_plain_lines(draft: Draft, scope: Scope, source: Source) -> None:
    """Obey the plain lines that stand here, up to the first other one."""
    # What waits comes first, and what splices and sought edges have is more than this knows.
    if scope.waiting or scope.splices or draft.sought:
        return
    text, at, number, before = source.text, source.at, source.number, scope.before
    by_name, nodes, match = draft.by_name, draft.nodes, _PLAIN.match
    while plain := match(text, at):
        kind = plain.lastindex
        if kind == _JOB:
            name, submit = before + plain[1], plain[2]
            if name in by_name or plain[1].upper() in RESERVED or submit.endswith(SUBDAG_SUFFIX):
                break
            place = Place(source.file, number + 1)
            draft.add(NodeDraft(name, "JOB", intern(submit), place, None, scope.directory, False, False), scope)
        elif kind == _PARENT:
            parent, child = by_name.get(before + plain[7]), by_name.get(before + plain[8])
            if parent is None or child is None:
                break
            if nodes[parent].kind not in ORDINARY or nodes[child].kind not in ORDINARY:
                break
            draft.connect([parent], [child], weak=False)
        elif kind == _RETRY:
            of = by_name.get(before + plain[5])
            if of is None or nodes[of].kind not in ORDINARY:
                break
            nodes[of].retry = PLAIN_RETRIES[int(plain[6])]
        else:
            of = by_name.get(before + plain[3])
            if of is None or nodes[of].variables or "queue" in plain[4].lower():
                break
            nodes[of].variables = tuple([Variable(intern(name), value) for name, value in _PAIR.findall(plain[4])])
        at, number = plain.end(), number + 1
    source.at, source.number = at, number
