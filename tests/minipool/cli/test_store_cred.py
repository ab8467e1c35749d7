"""condor_store_cred stores nothing, and says why for each kind of credential."""

from __future__ import annotations

import pytest

from minipool.cli.entry.main import dispatch


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("add -c", "the pool has no password"),
        ("add-pwd -f /x", "the pool has no password"),
        ("query", "on Windows alone"),
        ("query-krb -u ann", "a Kerberos ticket"),
        ("delete-oauth -s scitokens -S read", "a token gets its file by transfer_input_files"),
        ("grow", "grow is not an action"),
        ("", "Say what to do"),
    ],
)
def test_the_reason_is_said(argv: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("store_cred", argv.split()) == 1
    out, err = capsys.readouterr()
    assert (out, why in err) == ("", True)
