"""Programs that measure the tests: what they execute, and which faults they see. `make coverage`, `make mutants`."""
