"""The queue model of docs/lab/simulator.md as SimPy processes: a baseline for `convoy-lab sim`
that was written from the rules, not from convoy's code.

Times are integer picoseconds. README.md defines the order of events within one picosecond.

usage: simpy_model.py --trace FILE [--packets N] [--window W] [--accelerators A] ...   prints one JSON object
"""

import argparse
import json
import math
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generator

import simpy

import traces

PS_PER_S = 10**12
BLOCK_BYTES = 16
# Ranks of events at the same picosecond; events that follow from another one come first.
HANDOFF, FOLLOWS, BUS_RANK, PROCESSOR_RANK, ARRIVAL_RANK = 0, 1, 2, 3, 10**6

Process = Generator[simpy.Event, None, None]


@dataclass(frozen=True)
class Setting:
    """The parameters of the model; the defaults are the paper's platform."""

    window: int = 30
    accelerators: int = 1
    init_ratio: float = 3.0
    enc_ratio: float = 3.0
    depth: int = 10
    full_queue: str = "wait"
    depth_unit: str = "multi-packets"
    prefetch: bool = False
    init_us: float = 2.0
    block_mbps: float = 230.0
    bus_mhz: float = 66.0
    address_cycles: int = 1
    width_bytes: int = 4
    line_mbps: float = 1000.0

    def cost_ps(self, processor: int, blocks: int) -> int:
        """Rule 2: `p_i`."""
        init, block = self.init_us * 1e6, 16 * 8 * 1e6 / self.block_mbps
        if processor == 0:
            init, block = init * self.init_ratio, block * self.enc_ratio
        return nearest(init + block * blocks)

    def transfer_ps(self, size_bytes: int) -> int:
        """Rule 4: how long one transfer occupies the bus."""
        return nearest(1e6 / self.bus_mhz * (self.address_cycles + math.ceil(size_bytes / self.width_bytes)))

    def line_ps(self, size_bytes: int) -> int:
        """The source: how long a packet occupies the line."""
        return nearest(size_bytes * 8 * 1e6 / self.line_mbps)


def nearest(picoseconds: float) -> int:
    """Rounds to whole picoseconds."""
    return math.floor(picoseconds + 0.5)


class Moment(simpy.Event):
    """A timeout with a rank among those that end at the same picosecond."""

    def __init__(self, env: simpy.Environment, delay_ps: int, rank: int):
        self.env, self.callbacks, self._value, self._ok = env, [], None, True
        env.schedule(self, rank, delay_ps)


class Signal:
    """Wakes the process that waits, if there is one."""

    def __init__(self, env: simpy.Environment):
        self.env = env
        self.waiter: simpy.Event | None = None

    def wait(self) -> simpy.Event:
        """The event for the process to yield."""
        self.waiter = self.env.event()
        return self.waiter

    def notify(self, rank: int = FOLLOWS) -> None:
        """Lets the process continue within this picosecond."""
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter._ok, waiter._value = True, None
            self.env.schedule(waiter, rank)


@dataclass
class Packet:
    """One packet in the window."""

    arrived_ps: int
    size_bytes: int
    sa: str


@dataclass
class MultiPacket:
    """A multi-packet: packets of one SA."""

    packets: list[Packet]
    cost_ps: int
    scheduled_ps: int
    size_bytes: int


@dataclass
class Bus:
    """The bus: one transfer at a time, in order of request."""

    setting: Setting
    resource: simpy.Resource
    requests: int = 0
    conflicts: int = 0

    def move(self, size_bytes: int) -> Process:
        """One transfer."""
        self.requests += 1
        self.conflicts += bool(self.resource.count or self.resource.queue)
        request = self.resource.request()
        yield request
        yield Moment(self.resource._env, self.setting.transfer_ps(size_bytes), BUS_RANK)
        self.resource.release(request)


@dataclass
class Served:
    """Measures of one processor."""

    packets: int = 0
    multi_packets: int = 0
    size_bytes: int = 0
    latency_ps: int = 0
    sojourn_ps: int = 0
    last_ps: int = 0


class Processor:
    """A FIFO with the CPU or an accelerator behind it, and the scheduler's state for it (rule
    3)."""

    def __init__(self, model: "Model", number: int):
        self.model, self.env, self.number = model, model.env, number
        self.rank = PROCESSOR_RANK + number
        self.fifo: deque[MultiPacket] = deque()
        self.dispatched = Signal(self.env)
        self.served = Served()
        # The scheduler's view: multi-packets that are not done, oldest first; the sum of all but
        # the first; when that one was started.
        self.pending: deque[MultiPacket] = deque()
        self.queued_ps = 0
        self.service_began_ps = 0
        if number == 0:
            self.env.process(self.compute_only())
        elif model.setting.prefetch:
            self.start_prefetching()
        else:
            self.env.process(self.move_compute_move())

    def has_room(self, packets: int) -> bool:
        """Whether the queue has room for a multi-packet of this many packets; an idle processor
        always has."""
        setting, waiting = self.model.setting, list(self.pending)[1:]
        if setting.depth_unit == "multi-packets":
            return len(self.pending) <= setting.depth
        taken = sum(len(job.packets) for job in waiting)
        return not self.pending or taken + packets <= setting.depth or not waiting and setting.depth > 0

    def wait_ps(self) -> int:
        """`w_i = q_i + r_i`."""
        if not self.pending:
            return 0
        return self.queued_ps + max(0, self.service_began_ps + self.pending[0].cost_ps - self.env.now)

    def accept(self, job: MultiPacket) -> None:
        """Accepts a multi-packet from the scheduler."""
        if self.pending:
            self.queued_ps += job.cost_ps
        else:
            self.service_began_ps = self.env.now
        self.pending.append(job)
        self.fifo.append(job)
        self.dispatched.notify()

    def finish(self, job: MultiPacket) -> None:
        """Counts a multi-packet that is done, and tells the scheduler."""
        now = self.env.now
        assert self.pending.popleft() is job, "a processor serves in order"
        if self.pending:
            self.queued_ps -= self.pending[0].cost_ps
            self.service_began_ps = now
        served, packets = self.served, len(job.packets)
        served.packets += packets
        served.multi_packets += 1
        served.size_bytes += job.size_bytes
        served.latency_ps += packets * (now - job.scheduled_ps)
        served.sojourn_ps += packets * now - sum(packet.arrived_ps for packet in job.packets)
        served.last_ps = now
        self.model.changed.notify()

    def next_job(self) -> Process:
        """Waits for the oldest multi-packet in the FIFO."""
        if not self.fifo:
            yield self.dispatched.wait()
        return self.fifo.popleft()

    def compute_only(self) -> Process:
        """Rule 4 for the CPU."""
        while True:
            job = yield from self.next_job()
            yield Moment(self.env, job.cost_ps, self.rank)
            self.finish(job)

    def move_compute_move(self) -> Process:
        """Rule 4 for an accelerator."""
        while True:
            job = yield from self.next_job()
            yield from self.model.bus.move(job.size_bytes)
            yield Moment(self.env, job.cost_ps, self.rank)
            yield from self.model.bus.move(job.size_bytes)
            self.finish(job)

    def start_prefetching(self) -> None:
        """Rule 5: an input buffer and an output buffer at the core."""
        self.input: MultiPacket | None = None
        self.output: MultiPacket | None = None
        self.input_filled, self.input_emptied = Signal(self.env), Signal(self.env)
        self.output_filled, self.output_emptied = Signal(self.env), Signal(self.env)
        for process in (self.load(), self.compute(), self.unload()):
            self.env.process(process)

    def load(self) -> Process:
        """Moves the next multi-packet into the input buffer as soon as that is empty."""
        while True:
            if self.input is not None:
                yield self.input_emptied.wait()
            job = yield from self.next_job()
            yield from self.model.bus.move(job.size_bytes)
            self.input = job
            self.input_filled.notify(HANDOFF)

    def compute(self) -> Process:
        """The core, which stalls while its result has no output buffer."""
        while True:
            if self.input is None:
                yield self.input_filled.wait()
            job, self.input = self.input, None
            self.input_emptied.notify(HANDOFF)
            yield Moment(self.env, job.cost_ps, self.rank)
            if self.output is not None:
                yield self.output_emptied.wait()
            self.output = job
            self.output_filled.notify(HANDOFF)

    def unload(self) -> Process:
        """Moves results out."""
        while True:
            if self.output is None:
                yield self.output_filled.wait()
            job = self.output
            yield from self.model.bus.move(job.size_bytes)
            self.output = None
            self.output_emptied.notify(HANDOFF)
            self.finish(job)


@dataclass
class Model:
    """Source, window, scheduler, processors and bus."""

    setting: Setting
    arrivals: list[traces.Arrival]
    env: simpy.Environment = field(default_factory=simpy.Environment)
    window: list[Packet] = field(default_factory=list)
    has_ended: bool = False

    def __post_init__(self) -> None:
        self.bus = Bus(self.setting, simpy.Resource(self.env))
        self.changed, self.room = Signal(self.env), Signal(self.env)
        self.env.process(self.schedule())
        self.processors = [Processor(self, number) for number in range(self.setting.accelerators + 1)]
        # Rule 3: on a tie the accelerators in their order, then the CPU.
        self.by_preference = self.processors[1:] + self.processors[:1]
        self.env.process(self.source())

    def source(self) -> Process:
        """Sends packets back to back; while the window is full, it pauses."""
        for packet in self.arrivals:
            if len(self.window) >= self.setting.window:
                yield self.room.wait()
            yield Moment(self.env, self.setting.line_ps(packet.size_bytes), ARRIVAL_RANK)
            self.window.append(Packet(self.env.now, packet.size_bytes, packet.sa))
            self.has_ended = packet is self.arrivals[-1]
            self.changed.notify()

    def schedule(self) -> Process:
        """Dispatches what it can after every arrival and completion."""
        while True:
            yield self.changed.wait()
            while self.is_due() and self.dispatch():
                pass
            if len(self.window) < self.setting.window:
                self.room.notify()

    def is_due(self) -> bool:
        """Rule 1, without timeout and byte limit."""
        return len(self.window) >= self.setting.window or self.has_ended and bool(self.window)

    def dispatch(self) -> bool:
        """Rules 1 and 3: sends the multi-packet of the first packet's SA to the processor that
        finishes it first. Returns whether it was sent."""
        reference = self.window[0].sa
        packets = [packet for packet in self.window if packet.sa == reference]
        able = self.by_preference
        if self.setting.full_queue == "skip":
            able = [processor for processor in able if processor.has_room(len(packets))]
        if not able:
            return False
        blocks = sum(-(-packet.size_bytes // BLOCK_BYTES) for packet in packets)
        costs = [self.setting.cost_ps(processor.number, blocks) for processor in able]
        finish = [processor.wait_ps() + cost for processor, cost in zip(able, costs)]
        best = finish.index(min(finish))
        if not able[best].has_room(len(packets)):
            return False
        self.window = [packet for packet in self.window if packet.sa != reference]
        size_bytes = sum(packet.size_bytes for packet in packets)
        able[best].accept(MultiPacket(packets, costs[best], self.env.now, size_bytes))
        return True


def simulate(setting: Setting, arrivals: list[traces.Arrival]) -> dict:
    """Runs the model to its end and returns the report; RuntimeError if a packet was lost, which is
    a bug in the model."""
    model = Model(setting, arrivals)
    model.env.run()
    served = [processor.served for processor in model.processors]
    packets = sum(one.packets for one in served)
    if packets != len(arrivals):
        raise RuntimeError(f"{len(arrivals)} packets went in and {packets} came out")
    multi_packets = sum(one.multi_packets for one in served)
    size_bytes = sum(one.size_bytes for one in served)
    last_ps = max(one.last_ps for one in served)
    return {
        "packets": packets,
        "share": [one.packets / packets for one in served],
        "average_length": [one.size_bytes / max(one.multi_packets, 1) for one in served],
        "average_length_scheduled": size_bytes / multi_packets,
        "packets_per_multipacket": packets / multi_packets,
        "throughput_mbps": size_bytes * 8 * 1e6 / last_ps,
        "latency_ms": sum(one.latency_ps for one in served) / packets * 1e3 / PS_PER_S,
        "sojourn_ms": sum(one.sojourn_ps for one in served) / packets * 1e3 / PS_PER_S,
        "bus_conflicts": model.bus.conflicts / max(model.bus.requests, 1),
        "exact": {
            "packets": [one.packets for one in served],
            "multi_packets": [one.multi_packets for one in served],
            "size_bytes": [one.size_bytes for one in served],
            "latency_ps": [one.latency_ps for one in served],
            "sojourn_ps": [one.sojourn_ps for one in served],
            "last_ps": [one.last_ps for one in served],
            "bus": [model.bus.requests, model.bus.conflicts],
        },
    }


def main() -> None:
    """Simulates one trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True, help="six columns; see traces.py")
    parser.add_argument("--packets", type=int, help="the trace's first; all if not given")
    for name, default in vars(Setting()).items():
        flag = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default, help=f"default {default}")
    given = vars(parser.parse_args())
    try:
        arrivals = traces.read(given.pop("trace"), given.pop("packets"))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    report = simulate(Setting(**given), arrivals)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_began_s
    speed = {"wall_s": wall_s, "cpu_s": cpu_s, "packets_per_second": report["packets"] / cpu_s}
    print(json.dumps(report | speed))


if __name__ == "__main__":
    main()
