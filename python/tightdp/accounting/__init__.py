"""mechanism -> composition -> engine chosen by cost -> certified bound."""
