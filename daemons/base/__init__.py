"""What every daemon's code is written with: logs, pace, Linux's calls. Imports no other package of daemons."""
