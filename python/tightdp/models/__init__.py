"""Models, which compute the gradient and the loss of each record, and its contribution to a sum in integers."""
