"""Who somebody is, how that is proven, and what they may do: certificates, tokens, tickets, levels."""
