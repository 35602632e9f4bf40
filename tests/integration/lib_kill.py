"""A process that is just being started again has the pid 0 in what `mobula status` and the gateway say, and os.kill takes 0 for the
caller's whole group: the test, ctest, and whoever called that. With this imported it is an error of the test."""
import os

_kill = os.kill


def kill_one(pid, number):
    if pid <= 0:
        raise ProcessLookupError(f"there is no process to send signal {number} to: its pid is {pid}")
    _kill(pid, number)


os.kill = kill_one
