"""Estimators with scikit-learn's interface: each is charged for what its fit releases."""
