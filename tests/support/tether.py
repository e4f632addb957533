"""Runs a command that dies with the process that started it; a script, executed by its path.

Usage: ``tether.py PARENT_PID COMMAND ARGUMENT...``

A test run that is killed with SIGKILL cannot clean up, and a forgotten broker costs half a
gigabyte. On Linux the kernel does it instead: PR_SET_PDEATHSIG survives execve, so this script asks
for it and then *becomes* the command (same process id, so that the caller's handle is the
command's). It is a script rather than a ``preexec_fn`` because running Python between fork and exec
is unsafe once the parent has threads, and newer Pythons warn about it. The signal is tied to the
thread that started the child; the fixtures start theirs from the main thread. Elsewhere than on
Linux the command just runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    """Ties this process to its parent and becomes the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # It died before the request was made: no signal will come.
            sys.exit("tether: the parent is gone already")
    os.execvp(command[0], command)


main()
