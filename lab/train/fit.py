"""Logistic regressions over the calibration pairs: the model's probability, and the weights of the rules beside it."""

import collections

import numpy as np


def balance(rows):
    """Weights of rows: small sources count for more than their size, and supported as much as not supported."""
    name = lambda r: (r["s"].removesuffix("_long"), r["y"] == 0)
    count = collections.Counter(map(name, rows))
    weight = np.array([count[name(r)] ** -0.5 for r in rows])
    y = np.array([r["y"] == 0 for r in rows])
    for positive in (True, False):
        weight[y == positive] /= weight[y == positive].sum()
    return weight


def fitted(x, y, weight):
    """Logistic regression by Newton's method."""
    beta = np.zeros(x.shape[1])
    beta[0] = 1.0
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        gradient = x.T @ (weight * (p - y)) + 1e-4 * (beta - np.eye(len(beta))[0])
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + 1e-4 * np.eye(len(beta))
        beta -= np.linalg.solve(hessian, gradient)
    return beta


SIGNALS = ["model", "constant", "supported", "number", "date", "name", "negation", "opposite", "swapped"]


def decision(rows, signals, p):
    """Weights of the rules' findings beside the model's log odds, in the order of `SIGNALS`. Rows that a rule decides alone are left out."""
    if signals is None:
        return [1.0, 0.0, 0.5, -1.0, -1.0, -0.5, -0.5, -0.5, -0.5]
    p = np.clip(p, 1e-4, 1 - 1e-4)
    free = signals[:, 7] == 0
    x = np.concatenate([np.log(p / (1 - p))[:, None], np.ones((len(rows), 1)), signals[:, :7]], 1)[free]
    y = np.array([r["y"] == 0 for r in rows], float)[free]
    return fitted(x, y, balance(rows)[free]).tolist()
