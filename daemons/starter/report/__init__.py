"""Whom a starter reports to, and the result that it reports."""
