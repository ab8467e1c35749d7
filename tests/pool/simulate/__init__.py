"""Tests of pool.simulate."""
