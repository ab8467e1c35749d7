"""How tools print: ads, tables, formats."""
