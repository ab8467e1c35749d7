"""Generated expressions, alone and in matches, have the values that the real ClassAd library gives them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pool.classad.generate import Generator
from tests.pool.classad.oracle import AVAILABLE, Oracle, difference, other_match, other_text

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the HTCondor wheel is not installed")
EVERYTHING = list(HealthCheck)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    process = Oracle()
    yield process
    process.close()


def question(rng: Random, depth: int) -> tuple[str, str | None, str | None]:
    """An expression, the ad it is evaluated in, and mostly the other ad of a match."""
    generator = Generator(rng)
    my = generator.ad(2, least=3) if rng.random() < 0.8 else None
    target = generator.ad(2, least=3) if rng.random() < 0.6 else None
    return generator.expression(depth), my, target


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=EVERYTHING, database=None)
@given(rng=st.randoms(use_true_random=False))
def test_generated_expressions_have_the_library_s_values(oracle: Oracle, rng: Random) -> None:
    text, my, target = question(rng, 2)
    assert difference(oracle, text, my, target) is None, (text, my, target)


@pytest.mark.parametrize("block", range(4))
def test_seeded_expressions_have_the_library_s_values(oracle: Oracle, block: int) -> None:
    found = [told for seed in range(block * 100, block * 100 + 100) if (told := tell(oracle, seed))]
    assert not found, "\n".join(found)


def tell_text(oracle: Oracle, seed: int) -> str | None:
    """What differs for this seed in how a text is read."""
    generator = Generator(Random(seed))
    text = generator.soup() if seed % 2 else generator.expression(3)
    told = other_text(oracle, text)
    return None if told is None else f"{seed}: {told}\n  text {text!r}"


def tell_match(oracle: Oracle, seed: int) -> str | None:
    """What differs for this seed in whether two ads match."""
    generator = Generator(Random(seed))
    ads = [f"{generator.ad(2, least=3)[:-1]}; Requirements = {generator.expression(2)} ]" for _ in range(2)]
    told = other_match(oracle, *ads)
    return None if told is None else f"{seed}: {told}\n  {ads[0]}\n  {ads[1]}"


TELL = {"texts": tell_text, "matches": tell_match}


@pytest.mark.parametrize("what", TELL)
def test_seeded_texts_and_matches_are_the_library_s(oracle: Oracle, what: str) -> None:
    found = [told for seed in range(400) if (told := TELL[what](oracle, seed))]
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", TELL)
def test_50000_texts_and_matches_are_the_library_s(oracle: Oracle, what: str) -> None:
    found = [told for seed in range(2_000_000, 2_050_000) if (told := TELL[what](oracle, seed))]
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(25))
def test_100000_expressions_have_the_library_s_values(oracle: Oracle, block: int) -> None:
    first = 2_000_000 + block * 4000
    found = [told for seed in range(first, first + 4000) if (told := tell(oracle, seed))]
    assert not found, "\n".join(found)


def tell(oracle: Oracle, seed: int) -> str | None:
    """What differs for this seed, with the question."""
    text, my, target = question(Random(seed), 3)
    told = difference(oracle, text, my, target)
    return None if told is None else f"{seed}: {told}\n  expression {text}\n  my {my}\n  target {target}"
