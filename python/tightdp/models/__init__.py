"""Models, which compute the gradient and the loss of each record, and the integers that a record adds to a sum."""
