"""Models: what a record's gradient and loss are, and what it adds to a sum, in integers."""
