"""Packets that Python gives to simulate() and ndr(): rows, columns, iterators, and what is wrong with them."""

import itertools
from array import array

import pytest

import convoy_sim

PLATFORM = "pci-accelerators"
# Of the SAs 7, 2^40 and 3, in this order; a millisecond apart.
PACKETS = [(at % 1461, [7, 1 << 40, 3][at % 3], 1000.0 if at else 0.0) for at in range(1000)]


def simulate(traffic, **arguments):
    return convoy_sim.simulate(PLATFORM, traffic=traffic, **arguments)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    file = tmp_path_factory.mktemp("traffic") / "trace.txt"
    file.write_text("".join(f"{at / 1000} 1 {packet[1]} 80 80 {packet[0]}\n" for at, packet in enumerate(PACKETS)))
    return file


@pytest.mark.parametrize("arrivals", [{}, {"arrivals": "captured"}, {"arrivals": "poisson", "rate": 1e5}])
def test_rows_give_what_the_same_trace_gives(trace, arrivals):
    expected = convoy_sim.simulate(PLATFORM, trace=trace, **arrivals)
    assert simulate(PACKETS, **arrivals) == expected
    assert simulate(map(list, PACKETS), **arrivals) == expected


def test_columns_of_any_kind_give_what_rows_give():
    sizes, sas, gaps = zip(*PACKETS)
    expected = simulate(PACKETS, arrivals="captured")
    arrays = {"bytes": array("H", sizes), "sa": memoryview(array("Q", sas)), "gap_us": array("d", gaps)}
    assert simulate(arrays, arrivals="captured") == expected
    assert simulate({"gap_us": iter(gaps), "sa": sas, "bytes": list(sizes)}, arrivals="captured") == expected


def test_rows_of_one_size_and_sa_give_what_the_pattern_gives():
    expected = convoy_sim.simulate(PLATFORM, pattern="472", sas=1, packets=2000)
    assert simulate([(472, 5)] * 2000) == expected


def test_an_endless_iterator_is_read_as_far_as_packets_says():
    rows = ((at % 1000, at % 9) for at in itertools.count())
    assert simulate(rows, packets=1000)["packets"] == 1000
    assert next(rows) == (0, 1)


def test_classes_are_those_of_the_packets():
    rows = [(100, at % 50, 0, at % 2) for at in range(2000)]
    first, second = simulate(rows, classes=2, class_credits=1)["classes"]
    assert first["packets"] == second["packets"] == 1000
    assert first["sojourn_ms"] < second["sojourn_ms"]
    assert len(simulate(rows)["classes"]) == 1


def test_each_trial_of_a_search_has_all_packets_of_an_iterator(trace):
    limits = {"queue_packets": 50, "resolution": 0.05}
    expected = convoy_sim.ndr(PLATFORM, trace=trace, **limits)
    assert convoy_sim.ndr(PLATFORM, traffic=iter(PACKETS), **limits) == expected
    assert len(expected["trials"]) > 2
    assert convoy_sim.ndr(PLATFORM, traffic=itertools.cycle(PACKETS), packets=500, **limits)["report"]["packets"] <= 500


@pytest.mark.parametrize(
    ("traffic", "kind", "message"),
    [
        ([(40, 1), (65_536, 1)], ValueError, "traffic[1]: bytes 65536; expected an integer from 0 to 65535"),
        ([(40, 1), (40, -1)], ValueError, "traffic[1]: sa -1; expected an integer from 0 to 2^64 - 1"),
        ([(40, 1, -0.5)], ValueError, "traffic[0]: gap_us -0.5; expected a number of 0 or more"),
        ([(40, 1, float("nan"))], ValueError, "traffic[0]: gap_us nan"),
        ([(40, 1, 0, 8)], ValueError, "traffic[0]: class 8; expected 0 to 7"),
        ([(40.5, 1)], TypeError, "traffic[0]: bytes 40.5"),
        ([(40, "a")], TypeError, "traffic[0]: sa a"),
        ([(40, 1), 40], TypeError, "traffic[1]: 40; expected bytes, sa, gap_us, class"),
        ([(40,)], TypeError, "traffic[0]: (40,); expected bytes, sa, gap_us, class"),
        ([(40, 1, 0, 0, 0)], TypeError, "traffic[0]: (40, 1, 0, 0, 0); expected"),
        ({"bytes": [40]}, ValueError, 'traffic: no column "sa"'),
        ({"bytes": [40], "sa": [1], "dscp": [0]}, ValueError, 'traffic: unknown column "dscp"; possible columns: bytes'),
        ({"bytes": [40, 40], "sa": [1]}, ValueError, 'traffic[1]: column "sa" has ended before others'),
        (3, TypeError, "not iterable"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wrong_packet_is_named(traffic, kind, message):
    for run in (lambda: simulate(traffic), lambda: convoy_sim.ndr(PLATFORM, traffic=traffic, queue_packets=50)):
        with pytest.raises(kind) as error:
            run()
        assert message in str(error.value)


def test_captured_arrivals_need_gaps():
    with pytest.raises(ValueError, match=r'traffic\[1\]: no gap_us, which arrivals "captured" need'):
        simulate([(40, 1, 5), (40, 1)], arrivals="captured")


def test_an_exception_of_an_iterator_is_raised_as_it_is():
    def rows():
        yield from PACKETS
        raise LookupError("the archive is gone")

    with pytest.raises(LookupError, match="the archive is gone"):
        simulate(rows())


def test_traffic_is_given_once():
    for arguments, message in [({"pattern": "40"}, "either pattern"), ({"locality": 0.5}, "only for a pattern")]:
        with pytest.raises(ValueError, match=message):
            simulate(PACKETS, **arguments)
