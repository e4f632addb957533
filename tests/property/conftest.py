"""How generated tests run: no time limit per example (machines are shared), failures repeatable."""

from hypothesis import settings

settings.register_profile("rmq-ordered", deadline=None, print_blob=True)
settings.load_profile("rmq-ordered")
