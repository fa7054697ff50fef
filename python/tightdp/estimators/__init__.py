"""Estimators with scikit-learn's interface. Each fit is charged for its releases."""
