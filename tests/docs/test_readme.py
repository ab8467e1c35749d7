"""README.md: its tour, by somebody who has a pool and a job in it already; and that it leads to every page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import PAGES
from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, pool_directory
from tests.whole.warm_masters import MARK

README = (PAGES.parent / "README.md").read_text()
USER = "nobody"


def tour() -> str:
    """The commands of the tour."""
    section = README.partition("## A tour in ten lines\n")[2]
    lines = re.search(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert lines is not None
    return lines[0]


def run(script: str, home: RealPool) -> str:
    """Run commands as somebody who is at home there and has the programs on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=home.directory,
        env={"PATH": path, "HOME": str(home.directory), MARK: home.mark},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
        **as_account(USER),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tour_shows_what_it_says_and_leaves_other_jobs_alone() -> None:
    with pool_directory(USER) as directory:
        home = RealPool(directory, {}, USER)
        try:
            run(
                "pool up; printf 'executable = /bin/true\\nrequirements = false\\nqueue\\n' | condor_submit; pool down",
                home,
            )
            said = run(tour(), home)
            left = run("pool up > up; condor_q -af ClusterId; pool down > down", home)
            home.until(lambda: not home.processes(), "the end of the pool")
        finally:
            home.kill()
    assert left == "1\n"
    assert "3 job(s) submitted to cluster 2." in said
    assert "\nAll jobs done.\nhello 0\n" in said
    assert re.search(r"^[0-9., -]+: No slot meets the condition ", said, re.MULTILINE)


def test_every_page_is_listed_once() -> None:
    listed = re.findall(r"^\| \[(docs/[a-z-]+\.md)\]\(\1\) \|", README, re.MULTILINE)
    assert sorted(listed) == sorted(f"docs/{path.name}" for path in PAGES.glob("*.md"))


def test_terms_are_in_order_and_their_pages_speak_of_them() -> None:
    rows = re.findall(r"^\| (.+) \| .+ \| \[(.+\.md)\]\(\2\) \|$", (PAGES / "glossary.md").read_text(), re.MULTILINE)
    terms = [term for term, _ in rows]
    assert len(terms) > 40
    assert terms == sorted(terms, key=str.lower)
    for term, page in rows:
        assert term.lower() in re.sub(r"\s+", " ", (PAGES / page).read_text().replace("*", "")).lower(), (term, page)


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    for page in (*PAGES.glob("*.md"), *PAGES.parent.glob("*.md")):
        for link, anchor in re.findall(r"\]\((?!https?:)([^)# ]*)#?([^) ]*)\)", page.read_text()):
            target = page.parent / link if link else page
            assert target.exists(), (page.name, link)
            assert not anchor or anchor in _anchors(target.read_text()), (page.name, link, anchor)


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
