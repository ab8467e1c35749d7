"""Tools that read event logs."""
