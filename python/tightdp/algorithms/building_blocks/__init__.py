"""Parts that several algorithms share: plans, optimizers, step lengths, centring, and the loop of a run."""
