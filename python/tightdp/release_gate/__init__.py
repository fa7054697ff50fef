"""The way from records to releases: queries, budgets, and the gate, which asks the budget and adds noise."""
