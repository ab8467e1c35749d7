"""The hosts of a pool: their names, the register of their certificates, and the supervision of their daemons."""
