"""Algorithms: frozen settings that make a plan of public facts and a target, and the parts they share."""
