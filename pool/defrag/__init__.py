"""Which machines to empty so that jobs that need a whole machine find one, and which of those drains to call off."""
