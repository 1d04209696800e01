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


RIDGE = 1e-4


def fitted(x, y, weight):
    """Logistic regression by Newton's method with step halving: a full step can overshoot where most margins are large."""
    start = np.eye(x.shape[1])[0]
    beta = start.copy()

    def loss(beta):
        z = x @ beta
        return weight @ (np.logaddexp(0.0, z) - y * z) + RIDGE / 2 * ((beta - start) ** 2).sum()

    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        gradient = x.T @ (weight * (p - y)) + RIDGE * (beta - start)
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(beta))
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while size > 1e-6 and loss(beta - size * step) > loss(beta):
            size /= 2
        beta = beta - size * step
        if np.abs(size * step).max() < 1e-7:
            break
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
