"""The files that tell of a graph that runs, as text: rescue and save files, metrics, the nodes' status, pictures."""
