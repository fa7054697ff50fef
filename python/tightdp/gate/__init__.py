"""The way from records to releases: queries, the budget that is asked, and the gate that adds noise."""
