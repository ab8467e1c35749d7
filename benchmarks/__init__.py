"""Hot paths, measured: `make bench` prints one JSON object with every figure and how it was taken."""
