"""ndr() and find_ndr(): what is found, what a search is made of, errors, signals."""

import signal

import pytest

import convoy_sim
from test_simulate import TRACE, stub_fields

# A queue of 5 packets before the paper's platform, and trials that are over in no time.
SETTING = {"pattern": "472", "packets": 2000, "queue_packets": 5}


def ndr(**arguments):
    return convoy_sim.ndr("pci-accelerators", **{**SETTING, **arguments})


def run_at(rate, **arguments):
    return convoy_sim.simulate("pci-accelerators", arrivals="paced", rate=rate, **{**SETTING, **arguments})


def test_the_rate_that_is_found_passes_and_one_above_it_does_not():
    found = ndr()
    assert 0 < found["throughput"]["pps"] < found["line"]["pps"]
    assert found["report"]["dropped"]["packets"] == 0
    assert found["report"]["offered"] == found["throughput"]
    rates = {each["is_good"]: each["offered"]["pps"] for each in sorted(found["trials"], key=lambda each: each["offered"]["pps"])}
    assert rates[True] == found["throughput"]["pps"]
    failing = min(each["offered"]["pps"] for each in found["trials"] if not each["is_good"])
    assert failing > found["throughput"]["pps"] > failing * 0.998
    assert run_at(found["throughput"]["pps"] * 1.05)["dropped"]["packets"] > 0
    assert run_at(found["throughput"]["pps"] * 0.95)["dropped"]["packets"] == 0


def test_find_ndr_over_simulate_finds_what_ndr_finds():
    found = ndr()

    def trial(rate):
        report = run_at(rate)
        return report["dropped"]["packets"] / report["offered"]["packets"]

    again = convoy_sim.find_ndr(trial, high=found["line"]["pps"])
    assert again["rate"] == pytest.approx(found["throughput"]["pps"], rel=0.003)


def test_a_result_has_the_fields_that_the_stubs_say():
    fields = stub_fields()
    found = ndr()
    assert set(found) == fields["Ndr"] and set(found["report"]) == fields["Report"]
    assert all(set(each) == fields["Trial"] for each in found["trials"])
    assert set(found["throughput"]) == set(found["line"]) == fields["Load"]
    of_any = convoy_sim.find_ndr(lambda rate: rate > 7, high=10)
    assert set(of_any) == fields["FoundRate"] and set(of_any["trials"][0]) == fields["RateTrial"]


@pytest.mark.parametrize(
    "change",
    [
        {"loss_ratio": 0.1}, {"resolution": 0.1}, {"poisson": True}, {"pattern": "40"}, {"packets": 1000},
        {"window": 1}, {"accelerators": 2}, {"init_ratio": 9.0}, {"enc_ratio": 9.0}, {"depth": 1},
        {"policy": "cpu-only"}, {"queue_packets": 50}, {"sas": 1}, {"popularity": 1.0}, {"locality": 0.9},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_each_argument_changes_what_comes_out(change):
    assert ndr(**change) != ndr()


def test_the_seed_is_that_of_random_arrivals():
    assert ndr(poisson=True, seed=3) == ndr(poisson=True, seed=3) != ndr(poisson=True, seed=4)


def test_a_trace_is_offered_at_each_rate(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text(TRACE)
    found = ndr(pattern=None, trace=file, packets=None)
    assert len(found["trials"]) > 3
    assert all(each["offered"]["packets"] == 1000 for each in found["trials"])


def test_a_device_that_never_loses_has_the_highest_rate():
    found = convoy_sim.find_ndr(lambda rate: 0, high=1e6)
    assert found == {"rate": 1e6, "fails_at": None, "trials": [{"rate": 1e6, "loss_ratio": 0.0, "is_good": True}]}


def test_a_device_that_always_loses_has_no_rate():
    found = convoy_sim.find_ndr(lambda rate: 1, high=1e6, low=100)
    assert found["rate"] is None and found["fails_at"] == 100


@pytest.mark.parametrize(("loss_ratio", "expected"), [(0.0, 420_000), (0.3, 600_000)])
def test_loss_ratio_and_resolution_are_what_they_say(loss_ratio, expected):
    found = convoy_sim.find_ndr(
        lambda rate: max(0, 1 - 420_000 / rate), high=1e6, loss_ratio=loss_ratio, resolution=1e-5
    )
    assert found["rate"] <= expected * (1 + 1e-9) and found["fails_at"] >= expected
    assert found["fails_at"] - found["rate"] <= 1e-5 * found["fails_at"]
    assert [each["is_good"] for each in found["trials"]] == [each["loss_ratio"] <= loss_ratio for each in found["trials"]]


def test_an_exception_of_a_trial_ends_the_search():
    tried = []

    def trial(rate):
        tried.append(rate)
        if len(tried) == 3:
            raise OSError("the tester is gone")
        return 1

    with pytest.raises(OSError, match="the tester is gone"):
        convoy_sim.find_ndr(trial, high=1e6)
    assert len(tried) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"high": 0}, "the highest rate must be above 0"),
        ({"high": float("inf")}, "the highest rate must be above 0"),
        ({"low": 11}, "no less than the lowest, not 10 and 11"),
        ({"loss_ratio": 1}, "the loss ratio must be at least 0 and below 1, not 1"),
        ({"resolution": 0}, "the resolution must be above 0 and below 1"),
        ({"trial": lambda rate: 12}, "the lost share of packets must be 0 to 1, not 12 at rate 10"),
        ({"trial": lambda rate: float("nan")}, "the lost share of packets must be 0 to 1, not NaN"),
    ],
    ids=lambda each: None if isinstance(each, dict) else each,
)
def test_a_wrong_argument_of_find_ndr_is_a_value_error_that_names_it(arguments, message):
    with pytest.raises(ValueError) as error:
        convoy_sim.find_ndr(**{"trial": lambda rate: 0, "high": 10, **arguments})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queue_packets": None}, "its source waits; give it an ingress queue with queue_packets"),
        ({"loss_ratio": -0.1}, "the loss ratio must be at least 0 and below 1, not -0.1"),
        ({"resolution": 1}, "the resolution must be above 0 and below 1"),
        ({"pattern": None}, "either pattern or trace"),
        ({"window": 0}, "the window must be 1 to 1024 packets, not 0"),
    ],
    ids=lambda each: None if isinstance(each, dict) else each,
)
def test_a_wrong_argument_of_ndr_is_a_value_error_that_names_it(arguments, message):
    with pytest.raises(ValueError) as error:
        ndr(**arguments)
    assert message in str(error.value)


def test_a_wrong_type_is_a_type_error():
    with pytest.raises(TypeError, match="must return the lost share of packets, not None"):
        convoy_sim.find_ndr(lambda rate: None, high=10)
    for arguments in [{"trial": 3, "high": 10}, {"trial": lambda rate: 0}, {"trial": lambda rate: 0, "high": "10"}]:
        with pytest.raises(TypeError):
            convoy_sim.find_ndr(**arguments)
    with pytest.raises(TypeError):
        ndr(arrivals="paced")


def test_a_signal_handler_that_raises_ends_a_search():
    def handler(*_):
        raise RuntimeError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(RuntimeError, match="enough"):
            ndr(packets=100_000_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
