"""Jobs come, are asked about, are changed, and leave."""
