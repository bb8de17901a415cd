"""What an exploration has found is kept, and played first the next time, until it passes."""

from faults import explore
from faults.explore import SIMULATION, Exploration, Failed
from faults.simulation.seeds import play
from tideline.ledger import publishing

SEEDS = 50
"""Enough for this defect, as `test_simulation` shows."""


def test_a_kept_schedule_is_played_again_and_passes_once_the_defect_is_mended(monkeypatch, tmp_path):
    monkeypatch.setattr(explore, "KEPT", tmp_path / "explored.jsonl")
    assert explore.kept() == []
    exploration = Exploration(None, 1)
    with monkeypatch.context() as defect:
        defect.setattr(publishing, "holder", lambda *_: None)
        _, failure = play(0, SEEDS)
        failed = Failed(SIMULATION, str(failure.seed))
        explore.keep([failed])
        [(again, problem)] = exploration.again(explore.kept())
        assert again == failed
        assert f"--seed {failure.seed}" in problem
    assert list(exploration.again(explore.kept())) == [(failed, "")]
