"""What the configuration language and the submit language share: lines, macros, conditions, statements."""
