"""What schedds ask for: claims, and jobs under them."""
