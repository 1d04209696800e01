"""Tokens of users, as `baton tokens add` makes them."""
import json
import subprocess


def token(baton, db, user):
    added = subprocess.run([baton, "--db", db, "tokens", "add", user, "--json"], capture_output=True, text=True, check=True)
    return json.loads(added.stdout)["token"]
