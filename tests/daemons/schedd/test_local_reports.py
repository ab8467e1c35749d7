"""What the process beside a local job may say: reports are read into types, and nothing else is believed."""

from __future__ import annotations

import pytest

from daemons.schedd.execution.local_reports import Ended, NoReport, NotStarted, Report, Started, read_report


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (b'{"started": 12, "at": 1.5}', Started(12, 1.5)),
        (b'{"failed": 6, "subcode": 2, "reason": "why"}', NotStarted(6, 2, "why")),
        (b'{"failed": 6, "subcode": 2, "reason": "\\ud800"}', NotStarted(6, 2, "?")),
        (b'{"ended": 256, "user": 0.5, "system": 1}', Ended(256, 0.5, 1.0)),
    ],
)
def test_a_report_is_read(line: bytes, report: Report) -> None:
    assert read_report(line) == report


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"no", b"\xff", b"1", b"{}", b"[" * 100_000),
        *(
            b'{"started": "1", "at": 1}',
            b'{"started": 1}',
            b'{"started": 1, "at": NaN}',
            b'{"started": 1, "at": 1e999}',
        ),
        *(b'{"started": 1, "at": -1}', b'{"started": 1, "at": 1' + b"0" * 400 + b"}"),
        *(b'{"failed": 6, "reason": "why"}', b'{"failed": 6, "subcode": 2, "reason": 3}'),
        *(b'{"ended": null, "user": 0, "system": 0}', b'{"ended": 65536, "user": 0, "system": 0}'),
        *(b'{"ended": -1, "user": 0, "system": 0}', b'{"ended": 0, "user": Infinity, "system": 0}'),
    ],
)
def test_what_is_none_is_refused(line: bytes) -> None:
    with pytest.raises(NoReport):
        read_report(line)
