"""The Python API, and what tools share with it: a pool is found, jobs are submitted, followed and waited for."""
