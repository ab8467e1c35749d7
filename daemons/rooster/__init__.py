"""The rooster: wakes machines that sleep when there are jobs for them."""
