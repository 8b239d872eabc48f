"""What all tests share."""

from hypothesis import settings

# A machine that is busy with other things must not make an example fail: how long tests may take is said elsewhere.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
