"""The defragmenter: empties machines, a few at a time, so that jobs that need a whole one find it."""
