"""What everything else is written with: errors, units, names. Imports nothing of ours."""
