"""No rule about a result may hang on how busy the machine is: hypothesis' time limit per example is off."""

from hypothesis import settings

settings.register_profile("gemcode", deadline=None)
settings.load_profile("gemcode")
