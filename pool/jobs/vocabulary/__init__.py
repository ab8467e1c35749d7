"""The words of jobs: their states, why they are on hold, and which attributes are the schedd's own."""
