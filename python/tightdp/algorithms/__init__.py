"""Training algorithms. An algorithm is a frozen dataclass of settings, and makes a plan from public facts and a
target."""
