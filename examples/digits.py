"""Train a private classifier on real data that scikit-learn ships: 1,797 handwritten digits, 8 x 8 pixels."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tightdp.train import LogisticRegression, NoisyGD

X, y = load_digits(return_X_y=True)
X = X / 16.0  # pixels are 0..16 by the data set's definition, not by looking at these images
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

model = LogisticRegression(algorithm=NoisyGD(), epsilon=2.0, delta=1e-5).fit(X_train, y_train)
privacy = model.privacy_
print(f"test accuracy {model.score(X_test, y_test):.3f}")
print(f"certified epsilon in {privacy.interval('.6f')} at delta = 1e-5 (engine: {privacy.engine})")
