"""condor_manifest: HTCondor's functions, its answers and its exit statuses."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from minipool.cli.submit_tools.manifest import main


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    status = main("manifest", argv)
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("failure.z", -1), ("failure.000", -1), ("failure.0001", -1), ("_condor_checkpoint_MANIFEST.z", -1),
        ("_condor_checkpoint_MANIFEST.000", 0), ("_condor_checkpoint_MANIFEST.0001", 1),
        ("_condor_checkpoint_MANIFEST.0101", 101), ("_condor_checkpoint_MANIFEST.-101", -1),
    ],
)  # fmt: skip
def test_the_number_is_that_of_the_name(capsys: pytest.CaptureFixture[str], name: str, number: int) -> None:
    assert said(capsys, "getNumberFromFileName", name) == (number % 256, f"{number}\n")


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept" / "d").mkdir(parents=True)
    (tmp_path / "kept" / "a").write_text("a")
    (tmp_path / "kept" / "d" / "two words").write_text("b")
    assert main("manifest", ["createManifestFor", "kept"]) == 0
    return tmp_path / "MANIFEST"


def test_a_manifest_is_made_and_found_good(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digests = [sha256(text).hexdigest() for text in (b"a", b"b")]
    lines = f"{digests[0]} *kept/a\n{digests[1]} *kept/d/two words\n"
    assert manifest.read_text() == f"{lines}{sha256(lines.encode()).hexdigest()} *MANIFEST\n"
    assert said(capsys, "validateManifestFile", str(manifest)) == (0, "true\n")
    assert said(capsys, "validateFilesListedIn", str(manifest)) == (0, "true\n")
    assert said(capsys, "FileFromLine", lines.splitlines()[1]) == (0, "kept/d/two words\n")
    assert said(capsys, "ChecksumFromLine", lines.splitlines()[1]) == (0, f"{digests[1]}\n")
    assert said(capsys, "compute_file_sha256_checksum", "kept/a") == (0, f"{digests[0]} *kept/a\n")


def test_what_was_changed_is_found_bad(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = manifest.read_text()
    (manifest.parent / "kept" / "a").write_text("other")
    status, out = said(capsys, "validateFilesListedIn", str(manifest))
    assert (status, out.splitlines()[0]) == (1, "false")
    assert "Checkpoint file 'kept/a' did not have expected checksum (" in out
    (manifest.parent / "kept" / "a").unlink()
    assert "Failed to open checkpoint file ('kept/a')" in said(capsys, "validateFilesListedIn", str(manifest))[1]
    for bad in (good.replace("a", "b", 1), good.rsplit("\n", 2)[0] + "\n", ""):
        manifest.write_text(bad)
        assert said(capsys, "validateManifestFile", str(manifest)) == (1, "false\n")
    manifest.unlink()
    assert said(capsys, "validateManifestFile", str(manifest)) == (1, "false\n")
    assert said(capsys, "compute_file_sha256_checksum", "nowhere") == (1, "")


def test_another_function_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("manifest", ["deleteEverything", "x"]) == 1
    assert "validateFilesListedIn" in capsys.readouterr().err
