"""Who is a host of the pool: the names that hosts may have, and the central manager's register of certificates."""
