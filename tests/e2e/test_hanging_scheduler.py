"""A scheduler that lives and does nothing is started again, and runs go on."""

import time

import psutil

from tideline_stack import heartbeats, supervisor

SILENT_S = 15.0
"""Three heartbeats."""


def test_a_scheduler_without_a_heartbeat_is_started_again_and_runs_go_on(system, monkeypatch, capsys):
    with monkeypatch.context() as soon:
        soon.setattr(heartbeats, "SILENT_S", SILENT_S)
        soon.setattr(heartbeats, "ASK_EVERY_S", 0.5)
        hanging = psutil.Process(system.stack.parts()["scheduler"].pid)
        deadline = time.monotonic() + 600
        hanging.suspend()
        while hanging.is_running():
            assert time.monotonic() < deadline
            supervisor.start_again(system.stack)
            time.sleep(0.5)
    assert "scheduler sends no heartbeat and is started again\n" in capsys.readouterr().out
    assert system.stack.parts()["scheduler"].alive()
    system.fill("restarted", 0)
    run_id = system.run("restarted")
    assert system.states("restarted", run_id)["plan"] == "skipped"  # by the task itself, which has looked for records
