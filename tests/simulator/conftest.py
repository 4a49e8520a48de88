"""No property here is about speed: a busy machine must not fail it."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
