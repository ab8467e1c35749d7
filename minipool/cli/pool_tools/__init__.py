"""Tools that ask a pool's daemons."""
