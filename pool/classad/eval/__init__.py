"""Evaluation: expressions and ads, the reference evaluator, the compiler that agrees with it, and what walks trees."""
