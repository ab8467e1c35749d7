"""Tools of administrators and machine owners, and tools for ClassAds."""
