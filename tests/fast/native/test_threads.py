"""Work shared out among threads of C (threads.c): every item once, whoever else is at work."""

import ctypes
import os
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

from minicnn.fast.native import library
from tests.fast.native.ways import needs_compiler

pytestmark = needs_compiler

PIECE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
PATIENCE = 60  # seconds


def shared_out(threads, items, work):
    """[(item, thread)] in the order in which they were done; work(item) is called for each."""
    done = []

    def piece(context, item, thread):
        work(item)
        done.append((item, thread))

    share_out = library.kernels(np.float32).share_out
    share_out.argtypes, share_out.restype = [ctypes.c_long, ctypes.c_long, PIECE, ctypes.c_void_p], None
    share_out(threads, items, PIECE(piece), None)
    return done


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
@pytest.mark.parametrize("items", [0, 1, 2, 7, 100])
def test_every_item_is_done_once(threads, items):
    for _ in range(20):
        done = shared_out(threads, items, lambda item: None)
        assert sorted(item for item, _ in done) == list(range(items))
        assert {thread for _, thread in done} <= set(range(max(1, min(threads, items))))


def test_helpers_help():
    """Whoever takes the first of two items waits until the other is taken."""
    for asleep in (False, True):
        both = threading.Barrier(2, timeout=PATIENCE)
        if asleep:
            time.sleep(0.05)  # longer than a helper looks for work
        assert sorted(thread for _, thread in shared_out(2, 2, lambda item, both=both: both.wait())) == [0, 1]


def test_several_callers_at_once():
    """One of them has the helpers; the others do their work themselves."""
    wrong = []

    def call():
        for items in range(200):
            done = shared_out(3, items % 7, lambda item: None)
            wrong.extend([items] if sorted(item for item, _ in done) != list(range(items % 7)) else [])

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own():
    shared_out(3, 3, lambda item: None)
    child = os.fork()
    if child == 0:
        both = threading.Barrier(2, timeout=PATIENCE)
        os._exit(sorted(thread for _, thread in shared_out(2, 2, lambda item: both.wait())) != [0, 1])
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


RACES = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "threads.h"

enum { ITEMS = 5, JOBS = 1000 };

static void count(const void *context, long item, long thread) {
    (void)thread;
    usleep(1); /* so that helpers come in time, also where other programs have the cores */
    ((long *)context)[item]++; /* a race, unless every item is done once, between the calls before and after */
}

static void *many(void *context) {
    for (long i = 0; i < JOBS; i++) share_out(2 + i % 3, ITEMS, count, context);
    return 0;
}

int main(void) {
    long counts[2][ITEMS] = {0};
    pthread_t other;
    pthread_create(&other, 0, many, counts[1]);
    many(counts[0]);
    pthread_join(other, 0);
    for (int i = 0; i < ITEMS; i++)
        if (counts[0][i] != JOBS || counts[1][i] != JOBS) return 1;
    puts("no races");
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
@pytest.mark.parametrize("broken", [False, True])
def test_no_races(tmp_path, broken):
    """By gcc's sanitiser for threads, which sees it if the caller does not wait for those who joined."""
    code = (library.FOLDER / "threads.c").read_text()
    waiting = "for (long tries = 0; helping; tries++)"
    assert waiting in code
    for name, text in {
        "threads.c": code.replace(waiting, "for (long tries = 0; 0; tries++)") if broken else code,
        "threads.h": (library.FOLDER / "threads.h").read_text(),
        "races.c": RACES,
    }.items():
        (tmp_path / name).write_text(text)
    build = ["gcc", "-g", "-O1", "-std=gnu11", "-fsanitize=thread", "-pthread", "races.c", "threads.c", "-o", "races"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(["./races"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this system lays out memory in a way that the sanitiser does not know")
    if broken:
        assert "data race" in done.stderr or done.returncode != 0
    else:
        assert (done.returncode, done.stdout) == (0, "no races\n"), done.stderr[-3000:]
