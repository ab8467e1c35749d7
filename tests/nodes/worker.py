"""The program of the jobs: it proves that no other process does the same job now, and can be made to wait.

worker.py NUMBER: reads in.NUMBER, writes result.NUMBER. In the directory that all nodes share, `lock.NUMBER` is held
while it runs; the kernel takes the lock away from a process that dies, however it does.
"""

import fcntl
import os
import sys
import time

SHARED = "/evidence"


def main(number: str) -> int:
    """One job."""
    host = os.uname().nodename
    lock = os.open(f"{SHARED}/lock.{number}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("twice", number, host)
        return 1
    note("began", number, host)
    time.sleep(1)
    if os.path.exists(f"{SHARED}/park.{host}"):
        note("parked", number, host)
        while os.path.exists(f"{SHARED}/park.{host}"):
            time.sleep(0.1)
    with open(f"in.{number}") as given, open(f"result.{number}", "w") as made:
        made.write(given.read().upper())
    note("did", number, host)
    print("done", number)
    return 0


def note(what: str, number: str, host: str) -> None:
    """Leave a word in the shared directory."""
    with open(f"{SHARED}/{what}.{number}.{host}.{time.time_ns()}", "w"):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
