"""Rules about results hang neither on how busy the machine is nor on who started the tests."""

import signal

from hypothesis import settings

# The same examples in each run, so that a change is judged by what it changed; the soak looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile("same")

# A shell's background job ignores Ctrl-C, and one under nohup the end of its terminal; so would every program that the
# tests send these to.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
