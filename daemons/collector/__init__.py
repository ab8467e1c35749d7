"""The collector: knows every ad of the pool, and tells those who ask or watch."""
