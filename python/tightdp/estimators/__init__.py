"""Estimators with scikit-learn's interface. The fit of each is charged for what it releases."""
