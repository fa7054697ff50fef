"""Checks of the model and of the code that reads records. They run before anything is charged."""
