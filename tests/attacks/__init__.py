"""Attacks carried out with real daemons, sockets and accounts: each test tries to become somebody else, and must fail."""
