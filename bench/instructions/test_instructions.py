"""Tests of reading, attributing and comparing counts. Run: python3 -m unittest discover
bench/instructions"""

import json
import unittest

import callgrind
import compare
import measure
import sample
import stages
import tables

PROGRAM = "/target/throughput"
# worker calls prepare, which calls memcpy of libc twice as dearly as choose does; memcpy calls
# itself once.
DUMP = """
desc: Trigger: Client Request: software aes128gcm16 64 1 32 2560 out 10
positions: instr line
events: Ir
summary: 18446744073689955939

ob=(1) /target/throughput
fl=(1) worker.rs
fn=(1) round
0x100 7 5
+4 +1 5
cfn=(2) prepare
calls=10 0x200 3
* * 60
+4 * 2
cfn=(4) choose
calls=10 0x300 9
* -1 30

fn=(2)
0x200 3 20
cob=(2) /lib/libc.so.6
cfi=(2) ???
cfn=(3) memcpy
calls=10 0x10 0
+8 * 40

fn=(4)
0x300 9 10
cob=(2)
cfn=(3)
calls=10 0x10 0
-4 * 20

ob=(2)
fn=(3)
0x10 0 50
+2 0 4
cfn=(3)
calls=2 0x10 0
* 0 6
+1 0 6

ob=(3) /usr/lib/libIPSec_MB.so.1
fn=(5) 0x77
0x77 0 100
""".splitlines()
FRAMES = {
    0x100: [("/rustc/1/core/src/iter.rs:3", "next"), ("/x/crates/dataplane/src/worker.rs:7", "round")],
    0x104: [("/x/crates/dataplane/src/worker.rs:8", "round")],
    0x108: [("/x/crates/dataplane/src/worker.rs:8", "round")],
    0x200: [("/x/crates/packet/src/frame.rs:1", "grow"), ("/x/crates/ipsec/src/sad/outbound_sa.rs:3", "write_esp")],
    0x208: [("/x/crates/ipsec/src/sad/outbound_sa.rs:3", "write_esp")],
    0x300: [("/x/crates/scheduler/src/choice.rs:9", "choose")],
    0x2fc: [("/x/crates/scheduler/src/choice.rs:9", "choose")],
}


class KnownSource:
    """Frames from a table, instead of addr2line as in stages.Source."""

    program = PROGRAM
    frames = FRAMES

    def learn(self, addresses):
        assert set(addresses) <= FRAMES.keys(), "an address that was read wrongly"


def measured(**instructions):
    return {"tools": {"rustc": "1.95.0"}, "cases": [{"case": case, "instructions": value} for case, value in instructions.items()]}


class Reading(unittest.TestCase):
    def test_costs_and_calls_are_told_apart_and_positions_add_up(self):
        profile = callgrind.read(DUMP)
        self.assertEqual(profile.case, "software aes128gcm16 64 1 32 2560 out 10")
        round_ = profile.functions[PROGRAM, "round"]
        self.assertEqual(dict(round_.self_cost), {0x100: 5, 0x104: 5, 0x108: 2})
        memcpy = profile.functions["/lib/libc.so.6", "memcpy"]
        self.assertEqual(memcpy.callers[(PROGRAM, "prepare"), 0x208], 40)
        # Callgrind's own total wraps below zero after collection was switched.
        self.assertEqual(profile.total(), 5 + 5 + 2 + 20 + 10 + 60 + 100)

    def test_other_events_and_missing_addresses_are_refused(self):
        for line in ("events: Ir Dr", "positions: line"):
            with self.assertRaises(ValueError):
                callgrind.read([line])


class Attribution(unittest.TestCase):
    def test_an_instruction_is_its_innermost_named_frames_and_a_librarys_its_callers(self):
        parts = stages.attribute(callgrind.read(DUMP), KnownSource())
        self.assertEqual(parts["worker's round"], 12)
        self.assertAlmostEqual(parts["prepare"], 20 + 60 * 40 / 60)
        self.assertAlmostEqual(parts["choice"], 10 + 60 * 20 / 60)
        self.assertEqual(parts[stages.CIPHER], 100)
        self.assertAlmostEqual(sum(parts.values()), callgrind.read(DUMP).total())

    def test_every_rule_names_a_stage_and_every_stage_has_a_place(self):
        self.assertEqual({stage for stage, _, _ in stages.RULES} - set(stages.STAGES), set())

    def test_every_file_that_a_rule_names_is_there(self):
        sources = [f"/{path.relative_to(measure.ROOT)}" for path in measure.ROOT.glob("crates/*/src/**/*.rs")]
        for stage, files, _ in stages.RULES:
            if "crates" in files.pattern:
                with self.subTest(stage=stage, files=files.pattern):
                    self.assertTrue(any(files.search(source) for source in sources), "moved or renamed?")

    def test_a_reading_of_the_clock_is_one_load(self):
        load = ("/rustc/1/library/core/src/sync/atomic.rs:4", "load")
        self.assertTrue(stages.is_clock_reading([load, ("/x/crates/dataplane/src/clock.rs:60", "now_ns")]))
        self.assertFalse(stages.is_clock_reading([load, ("/x/crates/dataplane/src/handoff.rs:60", "take")]))
        self.assertFalse(stages.is_clock_reading([("/x/crates/dataplane/src/clock.rs:60", "now_ns")]))


class Sampling(unittest.TestCase):
    # The code is at offset 0x40 in the program's file, has the link address 0x100, and is mapped
    # from offset 0x20 on.
    TEXT = f"""
perf-exec PERF_RECORD_MMAP2 1/1: [0x5000(0x1000) @ 0x20 fe:00 1 0]: r-xp {PROGRAM}
     rest      5024 ({PROGRAM})
      out      5024 ({PROGRAM})
      out      7f0000001000 (/usr/lib/x86_64-linux-gnu/libIPSec_MB.so.1.3.0)
      out      7f0000002000 (/usr/lib/x86_64-linux-gnu/libc.so.6)
      out      7fff00001000 ([vdso])
      out  ffffffff81001000 ([kernel.kallsyms])
       in      5020 ({PROGRAM})
"""
    SEGMENTS = [(0, 0, 0x40), (0x40, 0x100, 0x200)]

    def test_a_sample_is_of_the_way_that_its_thread_is_named_by(self):
        ways = sample.stages_of(self.TEXT, KnownSource(), self.SEGMENTS)
        self.assertEqual(ways["in"].total(), 1)
        self.assertEqual((ways["out"][stages.CIPHER], ways["out"][sample.LIBRARY], ways["out"]["clock"]), (1, 1, 1))
        self.assertEqual(ways["out"].total(), 4, "the kernel's samples are not the path's")

    def test_an_address_of_the_running_program_is_found_in_its_file(self):
        mapped, _ = sample.samples(self.TEXT)
        self.assertEqual(sample.to_program(0x5020, mapped, PROGRAM, self.SEGMENTS), 0x100)
        self.assertEqual(sample.to_program(0x5000, mapped, PROGRAM, self.SEGMENTS), 0x20)
        self.assertIsNone(sample.to_program(0x4fff, mapped, PROGRAM, self.SEGMENTS))


class Comparison(unittest.TestCase):
    def faults(self, before, now):
        return compare.faults(compare.rows(measured(**before), measured(**now)))

    def test_up_to_three_percent_more_passes_and_anything_less(self):
        self.assertEqual(self.faults({"a": 1000, "b": 1000}, {"a": 1030, "b": 10}), [])

    def test_more_fails_and_says_how_much(self):
        self.assertEqual(self.faults({"a": 1000}, {"a": 1031}), ["a: +3.1%, from 1000 to 1031 instructions a packet"])

    def test_a_case_that_only_one_side_has_fails(self):
        self.assertEqual(self.faults({"a": 1}, {}), ["a: is in the baseline and was not measured"])
        self.assertEqual(self.faults({}, {"a": 1}), ["a: is not in the baseline"])

    def test_another_tool_is_told(self):
        other = {"tools": {"rustc": "1.96.0"}, "cases": []}
        self.assertEqual(compare.incomparable(measured(), other), ["rustc: 1.95.0 in the baseline, 1.96.0 here"])
        self.assertEqual(compare.incomparable(measured(), measured()), [])


class Page(unittest.TestCase):
    def test_the_tables_of_the_page_are_those_of_the_baseline(self):
        baseline = json.loads((measure.ROOT / "bench/baseline/instructions.json").read_text())
        page = tables.PAGE.read_text()
        self.assertEqual(page, tables.in_page(page, baseline, tables.OF_THE_BASELINE), "make bench-baseline writes both")
        self.assertEqual(tables.DATA.read_text(), tables.data(baseline), "make bench-baseline writes both")


if __name__ == "__main__":
    unittest.main()
