"""Full-batch noisy gradient descent with momentum and iterate averaging."""
