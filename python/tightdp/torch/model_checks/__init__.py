"""Checks of the model and of the code that reads records, before anything is charged."""
