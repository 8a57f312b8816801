"""A callable as policy of simulate() and ndr()."""

import itertools

import pytest

import convoy_sim

PLATFORM = "pci-accelerators"


def simulate(policy, **arguments):
    return convoy_sim.simulate(PLATFORM, policy=policy, **{"pattern": "trace", "packets": 2000, **arguments})


def earliest(view, multi_packet=0):
    """The processor with the lowest finishing time; on a tie an accelerator, then the faster one."""

    def finish(processor):
        offer, state = view.offers[multi_packet][processor], view.processors[processor]
        return state.wait_ps + offer.processing_ps, state.is_cpu, offer.processing_ps

    offered = (at for at, offer in enumerate(view.offers[multi_packet]) if offer)
    return multi_packet, min(offered, key=finish)


def overtake(view):
    """The first multi-packet whose processor has room."""
    choices = (earliest(view, at) for at in range(len(view.multi_packets)))
    return next(((at, best) for at, best in choices if view.offers[at][best].has_room), None)


@pytest.mark.parametrize(
    "setting",
    [{}, {"accelerators": 3}, {"full_queue": "skip", "depth": 1}, {"class_shares": [0.3, 0.7], "class_credits": 1}],
    ids=lambda setting: " ".join(setting),
)
@pytest.mark.parametrize("reach", [None, 1])
def test_the_lowest_finishing_time_gives_what_the_gateways_policy_gives(setting, reach):
    assert simulate(earliest, reach=reach, **setting) == simulate("finishing-time", **setting)
    assert simulate(earliest, **setting) != simulate("least-loaded", **setting)


def test_a_policy_over_the_window_gives_what_the_rival_of_that_rule_gives():
    setting = {"accelerators": 2, "depth": 1}
    assert simulate(overtake, **setting) == simulate("overtake", **setting) != simulate("met", **setting)


def test_a_view_has_the_window_and_the_processors():
    views = []

    def note(view):
        views.append(view)
        return earliest(view)

    simulate(note, pattern="84", packets=200, sas=4, window=8)
    first = views[0]
    assert first.now_ps > 0 and [each.is_cpu for each in first.processors] == [True, False]
    assert all(each.wait_ps == each.queued == 0 for each in first.processors)
    assert sum(each.packets for each in first.multi_packets) == 8
    # 84 bytes and the platform's header of 40.
    assert all((each.bytes, each.blocks) == (124 * each.packets, 8 * each.packets) for each in first.multi_packets)
    assert len(first.offers) == len(first.multi_packets) and all(len(row) == 2 for row in first.offers)
    assert all(offer.has_room and offer.processing_ps > 0 for row in first.offers for offer in row)
    assert any(each.queued for view in views for each in view.processors)


def test_reach_limits_what_the_policy_sees():
    lengths = set()

    def note(view):
        lengths.add(len(view.multi_packets))
        return earliest(view)

    simulate(note, reach=3)
    assert max(lengths) == 3
    simulate(note)
    assert max(lengths) > 10


def test_none_waits_for_the_next_arrival_or_completion():
    # Only one multi-packet is at the processors at any time.
    def one_at_a_time(view):
        return None if any(each.queued for each in view.processors) else earliest(view)

    report = simulate(one_at_a_time)
    assert report["packets_out"] == 2000
    assert report["throughput_mbps"] < simulate(earliest)["throughput_mbps"]


def test_a_search_takes_a_callable():
    setting = {"pattern": "400", "queue_packets": 50, "packets": 2000, "resolution": 0.05}
    expected = convoy_sim.ndr(PLATFORM, policy="finishing-time", **setting)
    assert convoy_sim.ndr(PLATFORM, policy=earliest, reach=1, **setting) == expected


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((0, 2), ValueError, "policy returned (0, 2); there are 30 multi-packets and 2 processors"),
        ((30, 0), ValueError, "policy returned (30, 0); there are 30 multi-packets"),
        ((-1, 0), ValueError, "policy returned (-1, 0); an index is out of range"),
        (1, TypeError, "policy returned 1; expected the indices"),
        (("a", 0), TypeError, "expected the indices of a multi-packet and of a processor, or None"),
        (None, ValueError, "policy left 60 packets: it returned None at the end"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wrong_answer_is_named(answer, kind, message):
    rows = [(40, sa) for sa in range(60)]
    with pytest.raises(kind) as error:
        convoy_sim.simulate(PLATFORM, traffic=rows, packets=60, policy=lambda _: answer)
    assert message in str(error.value)


def test_a_processor_that_offers_nothing_cannot_be_chosen():
    def to_the_full_one(view):
        full = [at for at, offer in enumerate(view.offers[0]) if offer is None]
        return (0, full[0]) if full else earliest(view)

    with pytest.raises(ValueError, match="offers nothing for this multi-packet"):
        simulate(to_the_full_one, full_queue="skip", depth=1)


@pytest.mark.parametrize("setting", [{}, {"queue_packets": 50}])
def test_an_exception_of_the_policy_ends_the_run_and_is_raised(setting):
    calls = itertools.count()

    def failing(view):
        if next(calls) == 100:
            raise LookupError("no such rule")
        return earliest(view)

    with pytest.raises(LookupError, match="no such rule"):
        simulate(failing, packets=100_000_000_000, **setting)
    assert next(calls) == 101


def test_reach_is_for_a_callable():
    with pytest.raises(ValueError, match="reach is only for a policy that is a callable"):
        simulate("met", reach=3)
    with pytest.raises(ValueError, match="reach: 0; it must be an integer of 1 or more"):
        simulate(earliest, reach=0)
