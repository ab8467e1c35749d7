"""What startd, starter and schedd share of a host: accounts, control groups, namespaces, sandboxes, programs."""
