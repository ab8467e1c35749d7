"""What if: a recorded workload against the negotiator's cycle, the accountant and the slots, on a clock of its own."""
