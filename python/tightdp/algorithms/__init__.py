"""Training algorithms. Each is a frozen dataclass of settings that makes a plan from public facts and a target."""
