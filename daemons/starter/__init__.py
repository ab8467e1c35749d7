"""The starter: runs one owner's jobs, one after another, each in a sandbox and a control group of its own."""
