"""Methods that the papers compare with and that nobody needs otherwise: bounds and approximations by name."""
