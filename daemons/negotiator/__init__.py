"""The negotiator: decides which jobs get which slots, and keeps account of who used what."""
