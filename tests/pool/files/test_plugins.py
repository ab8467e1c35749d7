from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.files.plugins import (
    BadPlugin,
    Plugin,
    UrlFailed,
    UrlFile,
    brought_plugins,
    built_in_plugin,
    check_answers,
    file_name_of,
    read_answers,
    read_plugin,
    request_text,
    stats_of,
)

GOOD = 'MultipleFileSupport = true\nPluginVersion = "1"\nPluginType = "FileTransfer"\nSupportedMethods = "OAK, elm"\n'
OAK = Plugin("/opt/oak_plugin", ("oak",))


def test_a_plugin_says_what_it_can_do_and_what_the_machine_shall_show() -> None:
    plugin = read_plugin("/p", GOOD + 'StartdAttrs = "OakInfo, Missing"\nOakInfo = "sturdy"\nProtocolVersion = 4\n')
    assert plugin == Plugin("/p", ("oak", "elm"), 4, attributes={"OakInfo": "sturdy"})
    assert read_plugin("/p", "[ " + GOOD.replace("\n", ";") + " ]").protocol == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "PluginType"),
        ("no ad at all", "PluginType"),
        ("[ PluginType = ", "no ad"),
        (GOOD.replace("FileTransfer", "Other"), "PluginType"),
        (GOOD.replace('"OAK, elm"', '" , "'), "SupportedMethods"),
        (GOOD.replace("true", "false"), "MultipleFileSupport"),
    ],
)
def test_what_is_no_plugin_is_named(text: str, said: str) -> None:
    with pytest.raises(BadPlugin, match=said):
        read_plugin("/p", text)


def test_names_of_urls() -> None:
    assert file_name_of("http://a/b/c.txt?x=/y#z") == "c.txt"
    assert file_name_of("http://a/b/") == "b"


def test_plugins_that_a_job_brings() -> None:
    job = ClassAd({"TransferPlugins": "a,B = one.py ; c=two ; ;broken"})
    assert brought_plugins(job) == {"a": "one.py", "b": "one.py", "c": "two"}


def test_a_request_names_url_and_file_and_carries_the_jobs_plugin_data() -> None:
    job = ClassAd({"PluginData": expr("[ Level = 3 ]"), "oak_PluginData": expr("[ Age = 5 ]")})
    files = [UrlFile("oak://x", "/s/x"), UrlFile("oak://y", "/s/y")]
    own = read_answers(request_text(files, OAK, job))
    assert [ad["Url"] for ad in own] == ["oak://x", "oak://y"]
    assert all("PluginData" in ad and "oak_PluginData" in ad for ad in own)
    apart = read_answers(request_text(files, Plugin("/p", ("oak",), 4), job))
    assert ["Url" in ad for ad in apart] == [False, False, True, True]
    assert apart[1]["Protocol"] == "oak"


def _answers(*rows: str) -> list[ClassAd]:
    return read_answers("\n".join(f"[ {row} ]" for row in rows) + "        \n   ")


@pytest.mark.parametrize(
    ("answers", "status", "subcode", "said"),
    [
        (['TransferUrl = "oak://x"; TransferSuccess = true'], 0, None, ""),
        (['TransferUrl = "oak://x"; TransferSuccess = true'], 2, 512, "all files have moved"),
        ([], 0, 0, "without producing"),
        ([], 1, 256, "without producing"),
        (['TransferUrl = "oak://x"'], -9, 9, "signal 9"),
        (['TransferUrl = "oak://x"; TransferSuccess = false; TransferError = "rot"'], 1, 256, "rot ( URL file = oak://x )"),
        (['TransferUrl = "oak://other"; TransferSuccess = true'], 0, 0, "without producing"),
    ],
)  # fmt: skip
def test_every_file_has_to_be_answered_for(answers: list[str], status: int, subcode: int | None, said: str) -> None:
    files = [UrlFile("oak://x", "/s/x")]
    if subcode is None:
        check_answers(OAK, files, _answers(*answers), status)
        return
    with pytest.raises(UrlFailed) as failed:
        check_answers(OAK, files, _answers(*answers), status)
    assert failed.value.subcode == subcode
    assert said in str(failed.value)


def test_answers_before_an_unreadable_one_count() -> None:
    assert len(read_answers("[ A = 1 ]\n[ B = 2 ]\n[ C = ")) == 2


def test_stats_count_this_run_and_all_runs() -> None:
    answers = _answers('TransferUrl = "oak://x"; TransferSuccess = true; TransferTotalBytes = 7')
    first = stats_of(answers, None, cedar_files=2, cedar_bytes=10)
    second = stats_of(answers, first, cedar_files=0, cedar_bytes=0)
    assert (second["OakFilesCount"], second["OakFilesCountTotal"], second["OakSizeBytesTotal"]) == (1, 2, 14)
    assert (second["CedarFilesCountTotal"], second["CedarSizeBytesTotal"]) == (2, 10)


def test_the_built_in_plugin_has_https_and_file() -> None:
    assert {"http", "https", "file"} <= set(built_in_plugin().methods)
