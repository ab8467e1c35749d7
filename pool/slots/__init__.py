"""One machine: what it has, how it is divided into slots, what each slot may do next, and what its owner allows."""
