"""figures(): the files, the claims, a trace of one's own and its errors."""

import pytest

import convoy_sim
from test_simulate import stub_fields

FEW = {"packets": 200, "range_packets": 20}


def trace(folder, *lines):
    file = folder / "packets.tcp"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def test_a_trace_takes_the_place_of_the_synthetic_one(tmp_path):
    lines = [f"{at}.5 9 {at // 3 % 5} 20 30 {at * 37 % 1461}" for at in range(200)]
    made = convoy_sim.figures(tmp_path / "out", trace=trace(tmp_path, *lines), **FEW)
    assert "200 packets to 5 destinations" in made["trace"]
    bases = {claim["basis"].split(":")[0] for claim in made["claims"]}
    assert len(made["claims"]) == 46 and bases <= {"follows", "fitted", "chosen", "put in"}
    verdicts = {"shown", "not shown", "undecided", "by construction"}
    assert {claim["verdict"] for claim in made["claims"]} <= verdicts
    assert (tmp_path / "out" / "claims.csv").is_file()
    assert set(made) == stub_fields()["Figures"]
    assert set(made["claims"][0]) == stub_fields()["ClaimVerdict"]


def test_a_wrong_line_is_named(tmp_path):
    wrong = trace(tmp_path, "0.5 9 1 20 30 100", "0.6 9 1 20 30")
    with pytest.raises(ValueError, match="packets.tcp:2: too few columns; expected six columns"):
        convoy_sim.figures(tmp_path / "out", trace=wrong, **FEW)
