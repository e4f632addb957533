"""A mutation check: bugs are planted one at a time, and the tests of a promise must catch each.

``python -m tests.mutations`` runs it. ``bugs`` says which bugs, ``planting`` puts them in,
``selection`` finds the tests that show a promise, ``lanes`` runs them.
"""
