"""simulate() and load_platform(): fields, errors, determinism, the interpreter's lock, the stubs."""

import ast
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import convoy_sim

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = ROOT / "platforms" / "pci-accelerators.toml"
STUB = ast.parse((ROOT / "python" / "convoy_sim.pyi").read_text())


def simulate(**arguments):
    return convoy_sim.simulate(PLATFORM, **{"pattern": "trace", "packets": 2000, **arguments})


def stub_fields():
    """The keys of each TypedDict of the stub."""
    fields = {}
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            fields[node.name] = {line.target.id for line in node.body}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            fields[node.targets[0].id] = {key.value for key in node.value.args[1].keys}
    return fields


def test_a_report_has_the_fields_that_the_stubs_say():
    report, fields = simulate(), stub_fields()
    assert set(report) == fields["Report"]
    assert set(report["latency_percentiles_ms"]) == fields["Percentiles"]
    assert all(set(report[load]) == fields["Load"] for load in ("offered", "carried", "dropped"))
    for name, kind in [("processors", "ProcessorReport"), ("buses", "BusReport"), ("classes", "ClassReport")]:
        assert report[name] and all(type(each) is dict and set(each) == fields[kind] for each in report[name])


def test_a_report_is_about_the_packets_that_were_asked_for():
    report = simulate(accelerators=2)
    assert report["packets"] == report["packets_out"] == 2000
    assert len(report["share"]) == len(report["average_length"]) == 3
    assert sum(report["share"]) == pytest.approx(1)
    assert [each["name"] for each in report["processors"]][0] == "cpu"


def test_the_papers_packets_per_multipacket_come_out():
    report = convoy_sim.simulate(PLATFORM, pattern="472", window=30)
    assert report["packets"] == 500_000
    assert report["packets_per_multipacket"] == pytest.approx(1.329, abs=0.005)


def test_the_stubs_have_the_modules_signatures():
    functions = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
    classes = [node.name for node in STUB.body if isinstance(node, ast.ClassDef) and node.decorator_list]
    assert sorted([*functions, *classes]) == sorted(convoy_sim.__all__)
    for name, stub in functions.items():
        built = inspect.signature(getattr(convoy_sim, name)).parameters.values()
        defaults = {each.name: each.default for each in built if each.default is not each.empty}
        arguments = stub.args
        assert [each.name for each in built] == [each.arg for each in arguments.args + arguments.kwonlyargs]
        assert defaults == {
            each.arg: ast.literal_eval(value)
            for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults)
            if value is not None
        }


def test_the_package_is_typed_and_documented():
    folder = Path(convoy_sim.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "__init__.pyi").exists()
    assert "platform" in convoy_sim.simulate.__doc__ and convoy_sim.load_platform.__doc__ and convoy_sim.__doc__


def test_a_run_is_a_function_of_its_seed():
    assert simulate(seed=7) == simulate(seed=7)
    assert simulate(seed=7) != simulate(seed=8)


@pytest.mark.parametrize(
    "change",
    [
        {"window": 1}, {"accelerators": 2}, {"init_ratio": 1.0}, {"enc_ratio": 7.0}, {"depth": 1},
        {"policy": "cpu-only"}, {"full_queue": "skip"}, {"depth_unit": "packets"}, {"pattern": "imix"},
        {"packets": 1000}, {"sas": 5}, {"popularity": 1.0}, {"locality": 0.9}, {"queue_packets": 5},
        {"arrivals": "poisson", "rate": 1e4}, {"arrivals": "paced", "rate": 1e4},
        {"policy": "sufferage"}, {"policy": "min-min"}, {"t_init_us": 9.0}, {"credits": 1}, {"pool": 20},
        {"transfers": 1}, {"prefetch": True}, {"write_buffer": True}, {"byte_limit": 100}, {"window_bytes": 900},
        {"aggregation": 1400}, {"class_shares": [0.5, 0.5]}, {"rate_mbps": 10.0}, {"queue_bytes": 500},
    ],
    ids=lambda change: next(iter(change.values())),
)  # fmt: skip
def test_each_argument_changes_what_comes_out(change):
    assert simulate(**change) != simulate()


def test_an_argument_of_a_policy_or_of_classes_changes_what_comes_out():
    sufferage = {"policy": "sufferage", "window": 60}
    assert simulate(**sufferage, ageing=1) != simulate(**sufferage)
    assert simulate(predicts_transfers=True, accelerators=2) != simulate(accelerators=2)
    assert simulate(max_wait_us=1.0, arrivals="paced", rate=1e3) != simulate(arrivals="paced", rate=1e3)
    classes = {"class_shares": [0.2, 0.8]}
    assert simulate(**classes, weights=[3, 1]) != simulate(**classes)
    assert simulate(**classes, classes=1) != simulate(**classes)
    assert simulate(**classes, class_credits=1) != simulate(**classes)


def test_the_highest_class_passes_the_others():
    first, second = simulate(class_shares=[0.3, 0.7], class_credits=1)["classes"]
    assert (first["class"], second["class"]) == (0, 1)
    assert first["packets"] + second["packets"] == 2000
    assert 3 * first["sojourn_ms"] < second["sojourn_ms"]
    fair = simulate(class_shares=(0.5, 0.5), weights=(1, 1))["classes"]
    assert fair[1]["sojourn_ms"] == pytest.approx(fair[0]["sojourn_ms"], rel=0.5)


def test_a_loaded_platform_gives_the_same_as_its_file():
    platform = convoy_sim.load_platform(str(PLATFORM))
    assert convoy_sim.simulate(platform, pattern="trace", packets=2000) == simulate()
    platform["processor"][1]["count"] = 2
    assert convoy_sim.simulate(platform, pattern="trace", packets=2000) == simulate(accelerators=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "sawtooth"}, 'unknown pattern "sawtooth"; possible patterns: exponential'),
        ({"pattern": None}, "either pattern or trace or traffic"),
        ({"trace": "some.pcap"}, "either pattern or trace or traffic"),
        ({"pattern": None, "trace": "/nowhere"}, "/nowhere: No such file"),
        ({"pattern": None, "trace": "x", "sas": 3}, "sas, popularity, locality and class_shares"),
        ({"window": 0}, "the window must be 1 to 1024 packets, not 0"),
        ({"depth": -1}, "depth: -1; it must be 0 or more"),
        ({"seed": 1 << 64}, "seed: 18446744073709551616; it is out of range"),
        ({"accelerators": 1000}, "1001 processors; 1 to 64"),
        ({"enc_ratio": float("nan")}, "enc_ratio: NaN"),
        ({"full_queue": "drop"}, 'unknown value "drop"; possible values: wait, skip'),
        ({"depth_unit": "octets"}, 'unknown value "octets"; possible values: multi-packets, packets, bytes'),
        ({"policy": "fastest"}, 'unknown policy "fastest"; possible policies: finishing-time'),
        ({"weights": [1, 1 << 32]}, "weights: [1, 4294967296]; it is out of range"),
        ({"weights": []}, "give one weight for each class"),
        ({"class_shares": [0.5, -1]}, "at most 8 class shares"),
        ({"pool": 0}, "pool"),
        ({"locality": 1.0}, "the locality must be at least 0 and below 1, not 1"),
        ({"arrivals": "now"}, 'unknown arrivals "now"; possible arrivals: back-to-back'),
        ({"arrivals": "paced"}, 'arrivals "paced" need a rate'),
        ({"arrivals": "paced", "rate": 0.0}, "the rate must be a number above 0, not 0 packets a second"),
        ({"arrivals": "captured"}, "a pattern has no times"),
        ({"rate": 1.0}, "a rate is only for arrivals"),
        ({"variant": "fast"}, 'no variant "fast"'),
    ],
    ids=lambda each: None if isinstance(each, dict) else each,
)
def test_a_wrong_argument_is_a_value_error_that_names_it(arguments, message):
    with pytest.raises(ValueError) as error:
        simulate(**arguments)
    assert message in str(error.value)


def test_a_wrong_platform_is_a_value_error_that_names_its_place(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(PLATFORM.read_text().replace("width_bytes = 4", "width_bytes = 0"))
    with pytest.raises(ValueError, match=r"wrong\.toml:\d+:15: error: bus\[0\]\.width_bytes: 0"):
        convoy_sim.load_platform(file)
    file.write_text(PLATFORM.read_text().replace("width_bytes = 4", "width_bytes = 0").replace("window = 30", "windw = 30"))
    with pytest.raises(ValueError, match=r'(?s)scheduler\.windw: unknown key; did you mean "window"\?'):
        convoy_sim.load_platform(file)
    file.write_text(file.read_text().replace("windw", "window").replace("clock_mhz = 66.0", "clock_mhz = -1.0"))
    with pytest.raises(ValueError, match=r"(?s)bus\[0\]\.clock_mhz: -1;.*\^.*bus\[0\]\.width_bytes: 0"):
        convoy_sim.load_platform(file)
    platform = convoy_sim.load_platform(PLATFORM)
    for changed, message in [
        ({"colour": 1}, r"platform:\d+:1: error: colour: unknown key"),
        ({"bus": []}, "no \\[\\[bus\\]\\]"),
        ({"bus": [{"name": "pci", "clock_mhz": -1.0, "width_bytes": 0}]}, r"(?s)bus\[0\]\.clock_mhz: -1;.*\^.*bus\[0\]\.width_bytes: 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            convoy_sim.simulate({**platform, **changed}, pattern="0")


def test_algorithms_differ_by_processor():
    platform = convoy_sim.load_platform(PLATFORM)
    platform["algorithm"] = [{"name": "aes", "share": 1}, {"name": "3des", "share": 1}]
    platform["processor"][1]["algorithms"] = {"aes": {}}
    share = convoy_sim.simulate(platform, pattern="trace", packets=20_000)["share"]
    # What uses 3DES is the CPU's alone.
    assert 0.4 < share[0] < 1
    platform["processor"][1]["algorithms"]["des"] = {"enc_ratio": -1}
    with pytest.raises(ValueError, match='no \\[\\[algorithm\\]\\] with the name "des"; did you mean "aes"'):
        convoy_sim.simulate(platform, pattern="trace", packets=20_000)


def test_a_wrong_type_is_a_type_error():
    for name, value in [("window", "30"), ("pattern", 3), ("weights", 1), ("colour", 1), ("colour", None)]:
        with pytest.raises(TypeError, match=f"^{name}: "):
            simulate(**{name: value})
    with pytest.raises(TypeError):
        convoy_sim.simulate(3, pattern="0")


TRACE = "".join(f"{at / 1000} 1 {at % 3} 80 80 {at % 1461}\n" for at in range(1000))


def test_a_text_trace_is_simulated_as_captured(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text(TRACE)
    report = convoy_sim.simulate(PLATFORM, trace=file, arrivals="captured")
    assert report["packets"] == 1000 and report["end_ms"] > 998
    assert convoy_sim.simulate(PLATFORM, trace=file, packets=10)["packets"] == 10


def test_a_capture_is_reported_by_its_first_bytes(tmp_path):
    ipv4 = bytes.fromhex("4500001c000000004011000001020304050607080001000200080000")
    file = tmp_path / "trace"
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000")
    record = bytes(8) + 2 * len(ipv4).to_bytes(4, "little") + ipv4
    file.write_bytes(header + 3 * record)
    assert convoy_sim.simulate(PLATFORM, trace=file)["packets"] == 3


def test_other_threads_run_while_one_simulates(tmp_path):
    # The run waits at the pipe until this thread writes: with the lock kept, neither would ever go
    # on.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reports = []
    thread = threading.Thread(target=lambda: reports.append(convoy_sim.simulate(PLATFORM, trace=pipe)))
    thread.start()
    with open(pipe, "w") as trace:
        trace.write(TRACE)
    thread.join()
    assert reports[0]["packets"] == 1000


def test_built_in_platforms_have_names():
    built_in = sorted(file.stem for file in PLATFORM.parent.glob("*.toml"))
    assert built_in == ["bluefield-3", "connectx-7", "grip", "grip-inline", "ixp425", "pci-accelerators", "pentium3", "qat-gen4"]
    for name in built_in:
        assert convoy_sim.load_platform(name) == convoy_sim.load_platform(PLATFORM.parent / f"{name}.toml")
    assert convoy_sim.simulate("pci-accelerators", pattern="trace", packets=2000) == simulate()
    with pytest.raises(ValueError, match="no such file; the built-in platforms are bluefield-3, connectx-7, grip, "):
        convoy_sim.simulate("pci-accelerator", pattern="0")


LONG_RUN = """
import convoy_sim
try:
    print("begins", flush=True)
    convoy_sim.simulate("pci-accelerators", pattern="trace", packets=100_000_000_000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_control_c_ends_a_run():
    with subprocess.Popen([sys.executable, "-c", LONG_RUN], stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout.readline() == "begins\n"
            time.sleep(0.5)
            run.send_signal(signal.SIGINT)
            # Far more than it takes, since the machine may be busy.
            assert run.communicate(timeout=120)[0] == "interrupted\n"
            assert run.returncode == 0
        finally:
            run.kill()


def test_a_signal_handler_that_raises_ends_a_run_with_its_exception():
    def handler(*_):
        raise RuntimeError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(RuntimeError, match="enough"):
            convoy_sim.simulate(PLATFORM, pattern="trace", packets=100_000_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_returns_ends_nothing():
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        report = convoy_sim.simulate(PLATFORM, pattern="trace", packets=3_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard and report["packets"] == 3_000_000


def test_a_trace_with_a_snap_length_counts_with_its_original_sizes(tmp_path):
    header = bytes.fromhex("d4c3b2a1020004000000000000000000" "28000000" "65000000")
    ipv4 = bytes.fromhex("450003e8000000004011000001020304050607080001000203d40000")
    record = bytes(8) + len(ipv4).to_bytes(4, "little") + (1000).to_bytes(4, "little") + ipv4
    file = tmp_path / "snapped.pcap"
    file.write_bytes(header + 3 * record + record[:20])
    report = convoy_sim.simulate(PLATFORM, trace=file)
    # 972 bytes of payload, and the 40 of the platform's header; the fourth record is cut off.
    assert (report["packets"], report["bytes"]) == (3, 3 * 1012)
