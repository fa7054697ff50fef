"""Private preprocessing. Everything that a transformer learns from the records is released with noise, and is charged.

    from tightdp.pipeline import PrivatePipeline
    from tightdp.preprocessing import ColumnTransformer, MinMaxScaler, OneHotEncoder
    from tightdp.train import LogisticRegression
    columns = ColumnTransformer([("numbers", MinMaxScaler(), ["age", "hours"]), ("texts", OneHotEncoder(), ["job"])])
    model = PrivatePipeline([("columns", columns), ("model", LogisticRegression())], epsilon=1.0, delta=1e-6).fit(X, y)
    model.privacy_      # of all steps together

Names and interface are scikit-learn's. Facts that you declare, such as bounds, cost nothing.
"""

from .chain import Chain
from .column_transformer import ColumnTransformer
from .encoder import OneHotEncoder
from .imputer import SimpleImputer
from .scalers import MinMaxScaler, StandardScaler
from .transformer import PrivateTransformer

__all__ = [
    "Chain",
    "ColumnTransformer",
    "MinMaxScaler",
    "OneHotEncoder",
    "PrivateTransformer",
    "SimpleImputer",
    "StandardScaler",
]
