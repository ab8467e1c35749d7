"""What is wrong with a description or a configuration is underlined where the user wrote it.

In each text `¦` stands before the character that the caret must be under; the text is read without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import ConfigError, SubmitError, UserError
from pool.config import load_config
from pool.transforms.transform import read_transform
from tests.pool.submit.build import Place

PLAIN = "executable = job.sh\n"

DESCRIPTIONS = {
    "a misspelt request": "request_memroy = 4 ¦GB\nqueue",
    "an expression that ends too early": "  requirements   =   ( Memory >¦\nqueue",
    "an expression that the tool would complete": "requirements = Memory > 1 &&¦\nqueue",
    "a tab before the name": "\trank\t= (Memory¦\nqueue",
    "a line that goes on": 'requirements = (Memory > 1) && \\\n    OpSys ¦= "LINUX"\nqueue',
    "a comment where a line goes on": 'requirements = (Memory > 1) && \\\n  # why\\\n    OpSys ¦= "LINUX"\nqueue',
    "a value of several lines": 'requirements @=end\n (Memory > 1) &&\n   OpSys ¦= "LINUX"\n@end\nqueue',
    "a macro in an expression": "x = Memory >\nrequirements =  ¦$(x) && TRUE\nqueue",
    "an appended value": "rank = Memory\nrank += + ¦)\nqueue",
    "an attribute of one's own": "+Foo = 1 +¦\nqueue",
    "an attribute with MY": "MY.Foo=(1¦\nqueue",
    "a policy": "  periodic_hold=time() ¦ago\nqueue",
    "a number": "priority =   ¦high\nqueue",
    "a word": "  notification = ¦sometimes\nqueue",
    "a universe": "universe=¦vanila\nqueue",
    "quotes": 'arguments = ¦"a \'b"\nqueue',
    "a truth value": "transfer_executable = ¦perhaps\nqueue",
    "a file that is missing": "initialdir =  ¦nowhere\nqueue",
    "what is not supported": " ¦xen_kernel = 5\nqueue",
    "a name that is none": "  ¦a-b = 1\nqueue",
    "no statement": "  ¦this is no statement\nqueue",
    "a count": "queue  ¦5 x y",
    "items in a file that is missing": "queue ¦x from nowhere.txt",
    "a condition": "  if ¦3 > 2\nendif\nqueue",
    "a branch without a condition": "  ¦endif\nqueue",
    "a condition after a colon": "if true\n :  if ¦3 > 2\n: endif\nendif\nqueue",
    "an included file": "include :   ¦nope\nqueue",
    "a template": "use template :  ¦Nope\nqueue",
    "a message": "error :  ¦stop here\nqueue",
    "a value without an end": "x @=¦end\n a\nqueue",
}

CONFIGURATIONS = {
    "an expression": "START = Memory >¦",
    "an indented expression": "  START\t=  (Memory ¦Cpus)",
    "an expression that goes on": "START = TRUE && \\\n   Memory ¦Cpus",
    "an expression of several lines": "START @=end\n TRUE &&\n   Memory ¦Cpus\n@end",
    "an expression with macros": "X = Memory Cpus\nSTART =   ¦$(X)",
    "a number": "NUM_CPUS =   ¦many",
    "a truth value": "WANT_SUSPEND =  1\n  ALLOW_PSLOT_PREEMPTION =  ¦perhaps",
    "a name that is none": " ¦a-b = 1",
    "no statement": "  ¦word",
    "a condition": "  if ¦3 > 2\nendif",
    "a branch without a condition": " ¦endif",
    "an included file": "include :   ¦/nowhere/at/all",
    "a template": "use ROLE :  ¦Nope",
    "the second of two templates": "use ROLE :  Submit, ¦Nope",
    "a message": "error :  ¦stop here",
    "a value without an end": "x @=¦end\n a",
}
TRANSFORMS = {
    "a keyword": "  ¦FROB x y",
    "requirements": "SET A 1\n  REQUIREMENTS  ( x ¦y )",
    "a command without a value": " COPY   ¦A",
}


def unmarked(text: str) -> tuple[str, int, int]:
    before, _, after = text.partition("¦")
    return before + after, before.count("\n") + 1, len(before) - before.rfind("\n")


def must_be_at(error: UserError, text: str, line: int, column: int) -> None:
    assert error.span is not None, error
    assert (error.span.line, error.span.column) == (line, column), error
    assert error.span.text == text.split("\n")[line - 1].rstrip()
    *_, written, caret = str(error).splitlines()
    assert written == "    " + text.split("\n")[line - 1].replace("\t", " ").rstrip()
    assert caret == "    " + " " * (column - 1) + "^"


@pytest.mark.parametrize("what", DESCRIPTIONS)
def test_a_mistake_in_a_description(place: Place, what: str) -> None:
    text, line, column = unmarked(PLAIN + DESCRIPTIONS[what] + "\n")
    with pytest.raises(SubmitError) as caught:
        place.ads(text)
    must_be_at(caught.value, text, line, column)


def test_a_misspelt_request_is_told_the_likely_word(place: Place) -> None:
    with pytest.raises(SubmitError) as caught:
        place.ads(PLAIN + "request_memroy = 4 GB\nqueue\n")
    assert str(caught.value).startswith("t.sub:2:20: ")
    assert "Did you mean 'request_memory'?" in str(caught.value)


def test_a_custom_resource_that_is_probably_misspelt_draws_a_warning_with_its_place(place: Place) -> None:
    plan = place.plan(PLAIN + "  request_memroy = 4\nqueue\n")
    hint = "request_memroy asks for a custom resource 'memroy'. Did you mean 'request_memory'?"
    assert plan.warnings == [f"t.sub:2:20: {hint}"]


def test_what_was_written_on_the_command_line_is_underlined(place: Place) -> None:
    with pytest.raises(SubmitError) as caught:
        place.plan(PLAIN + "queue\n", extra=["a-b = 1"])
    assert str(caught.value).splitlines() == ["<Argument>: Illegal Identifier: <a-b>", "    a-b = 1", "    ^"]


@pytest.mark.parametrize("what", CONFIGURATIONS)
def test_a_mistake_in_a_configuration(tmp_path: Path, what: str) -> None:
    from pool.config.values import check_values

    text, line, column = unmarked(CONFIGURATIONS[what] + "\n")
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError) as caught:
        check_values(load_config([str(tmp_path / "config")], environ={}))
    must_be_at(caught.value, text, line, column)


@pytest.mark.parametrize("what", TRANSFORMS)
def test_a_mistake_in_a_transform(what: str) -> None:
    text, line, column = unmarked(TRANSFORMS[what] + "\n")
    with pytest.raises(UserError) as caught:
        read_transform("T", text)
    must_be_at(caught.value, text, line, column)
