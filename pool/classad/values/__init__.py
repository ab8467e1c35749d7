"""Values: their types, times, texts of times, and the table inside an ad."""
