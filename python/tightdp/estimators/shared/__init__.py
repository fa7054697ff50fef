"""Parts that all estimators share: nested parameters, fits that set everything or nothing, and statements."""
