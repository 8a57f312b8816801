// The queue model of docs/lab/simulator.md in SystemC: a baseline for `convoy-lab sim` that was
// written from the rules, not from convoy's code.
//
// SystemC's time resolution is set to 1 fs, and the model's times are whole picoseconds. The
// femtoseconds within a picosecond carry the rank of an event; README.md defines the order.
//
// usage: systemc_model --trace FILE [--packets N] [--window W] [--accelerators A] ...   prints one JSON object
#include <systemc>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "systemc_input.hpp"

namespace {

using sc_core::sc_event;
using sc_core::sc_module;
using sc_core::sc_module_name;

constexpr uint64_t FS_PER_PS = 1000;
// Ranks within a picosecond; processor i has PROCESSOR_RANK + i.
constexpr uint64_t BUS_RANK = 0, PROCESSOR_RANK = 1, ARRIVAL_RANK = 999;
constexpr uint32_t BLOCK_BYTES = 16;

uint64_t now_ps() { return sc_core::sc_time_stamp().value() / FS_PER_PS; }

uint64_t nearest(double picoseconds) { return static_cast<uint64_t>(std::floor(picoseconds + 0.5)); }

// Notifies an event `delay_ps` from now, at its rank.
void notify_at(sc_event &event, uint64_t delay_ps, uint64_t rank) {
    const uint64_t at_fs = (now_ps() + delay_ps) * FS_PER_PS + rank;
    event.notify(sc_core::sc_time::from_value(at_fs - sc_core::sc_time_stamp().value()));
}

struct Packet {
    uint64_t arrived_ps;
    uint32_t size_bytes;
    uint32_t sa;
};

// A multi-packet: packets of one SA. `arrived_ps` is the sum over its packets.
struct MultiPacket {
    uint64_t packets = 0, size_bytes = 0, blocks = 0, arrived_ps = 0, cost_ps = 0, scheduled_ps = 0;
};

// The processor that requests a transfer.
struct BusClient {
    virtual ~BusClient() = default;
    virtual void transferred(bool is_input) = 0;
};

// Rule 4, the bus: one transfer at a time, in order of request.
SC_MODULE(Bus) {
    uint64_t requests = 0, conflicts = 0;

    SC_HAS_PROCESS(Bus);
    Bus(sc_module_name name, const Setting &setting) : sc_module(name), setting(setting) {
        SC_METHOD(end_transfer);
        sensitive << ended;
        dont_initialize();
    }

    void request(BusClient &client, bool is_input, uint64_t size_bytes) {
        ++requests;
        conflicts += !line.empty();
        line.push_back({&client, is_input, size_bytes});
        if (line.size() == 1) start_transfer();
    }

private:
    struct Request {
        BusClient *client;
        bool is_input;
        uint64_t size_bytes;
    };
    const Setting &setting;
    sc_event ended;
    std::deque<Request> line;  // the first one occupies the bus

    void start_transfer() {
        const uint64_t words = (line.front().size_bytes + setting.width_bytes - 1) / setting.width_bytes;
        const double cycles = static_cast<double>(setting.address_cycles + words);
        notify_at(ended, nearest(1e6 / setting.bus_mhz * cycles), BUS_RANK);
    }

    void end_transfer() {
        const Request done = line.front();
        line.pop_front();
        if (!line.empty()) start_transfer();
        done.client->transferred(done.is_input);
    }
};

// Is told of each completion, after the processor has continued.
struct CompletionListener {
    virtual ~CompletionListener() = default;
    virtual void completed() = 0;
};

// Measures of one processor.
struct Served {
    uint64_t packets = 0, multi_packets = 0, size_bytes = 0, latency_ps = 0, sojourn_ps = 0, last_ps = 0;
};

// A FIFO with the CPU or an accelerator behind it, and the scheduler's state for it (rule 3).
class Processor : public sc_module, public BusClient {
public:
    Served served;
    CompletionListener *listener = nullptr;

    SC_HAS_PROCESS(Processor);
    Processor(sc_module_name name, const Setting &setting, uint32_t number, Bus &bus)
        : sc_module(name), setting(setting), number(number), bus(bus) {
        SC_METHOD(end_computing);
        sensitive << computed;
        dont_initialize();
    }

    // Rule 2.
    uint64_t cost_ps(uint64_t blocks) const {
        const bool is_cpu = number == 0;
        const double init = setting.init_us * 1e6 * (is_cpu ? setting.init_ratio : 1);
        const double block = 128e6 / setting.block_mbps * (is_cpu ? setting.enc_ratio : 1);
        return nearest(init + block * static_cast<double>(blocks));
    }

    // Whether there is room for a multi-packet of this many packets.
    bool has_room(uint64_t packets) const {
        if (pending.empty()) return true;
        if (setting.depth_unit == "multi-packets") return pending.size() <= setting.depth;
        uint64_t taken = 0;
        for (size_t at = 1; at < pending.size(); ++at) taken += pending[at].packets;
        return taken == 0 ? setting.depth > 0 : taken + packets <= setting.depth;
    }

    // `w = q + r`.
    uint64_t wait_ps() const {
        if (pending.empty()) return 0;
        const uint64_t end_ps = service_began_ps + pending.front().cost_ps;
        return queued_ps + (end_ps > now_ps() ? end_ps - now_ps() : 0);
    }

    void accept(const MultiPacket &job) {
        if (pending.empty()) service_began_ps = now_ps();
        else queued_ps += job.cost_ps;
        pending.push_back(job);
        ++waiting;
        advance();
    }

    void transferred(bool is_input) override {
        if (is_input) {
            is_loading = false;
            has_input = true;
            advance();
        } else {
            finish();
        }
    }

private:
    enum class Core { Empty, Computing, Finished };

    const Setting &setting;
    const uint32_t number;
    Bus &bus;
    sc_event computed;
    // Multi-packets that are not done, oldest first: in the output buffer, at the core, in the
    // input buffer, waiting. As this is a FIFO, the position of each follows from which buffers are
    // occupied.
    std::deque<MultiPacket> pending;
    size_t waiting = 0;
    bool is_loading = false, has_input = false, has_output = false;
    Core core = Core::Empty;
    uint64_t queued_ps = 0, service_began_ps = 0;

    bool is_cpu() const { return number == 0; }

    void end_computing() {
        core = Core::Finished;
        if (is_cpu()) finish();
        else advance();
    }

    // Moves everything that can move: the result out of the core, the input into it, the next input
    // into the buffer.
    void advance() {
        if (core == Core::Finished && !has_output) {
            has_output = true;
            core = Core::Empty;
            bus.request(*this, false, pending.front().size_bytes);
        }
        if (core == Core::Empty && has_input) {
            has_input = false;
            core = Core::Computing;
            notify_at(computed, pending[has_output].cost_ps, PROCESSOR_RANK + number);
        }
        const bool is_empty = core == Core::Empty && !has_output;
        if (waiting > 0 && !is_loading && !has_input && (is_empty || (setting.prefetch && !is_cpu()))) load();
    }

    void load() {
        const size_t next = pending.size() - waiting;
        --waiting;
        if (is_cpu()) {
            core = Core::Computing;
            notify_at(computed, pending[next].cost_ps, PROCESSOR_RANK + number);
        } else {
            is_loading = true;
            bus.request(*this, true, pending[next].size_bytes);
        }
    }

    void finish() {
        const uint64_t now = now_ps();
        const MultiPacket job = pending.front();
        pending.pop_front();
        if (!pending.empty()) {
            queued_ps -= pending.front().cost_ps;
            service_began_ps = now;
        }
        served.packets += job.packets;
        ++served.multi_packets;
        served.size_bytes += job.size_bytes;
        served.latency_ps += job.packets * (now - job.scheduled_ps);
        served.sojourn_ps += job.packets * now - job.arrived_ps;
        served.last_ps = now;
        if (is_cpu()) core = Core::Empty;
        else has_output = false;
        advance();
        listener->completed();
    }
};

using Processors = std::vector<std::unique_ptr<Processor>>;

// The source, the window and the scheduler: rules 1 and 3.
class Scheduler : public sc_module, public CompletionListener {
public:
    SC_HAS_PROCESS(Scheduler);
    Scheduler(sc_module_name name, const Setting &setting, const std::vector<Arrival> &arrivals, Processors &processors)
        : sc_module(name), setting(setting), arrivals(arrivals), processors(processors) {
        SC_METHOD(arrive);
        sensitive << arrived;
        dont_initialize();
    }

    void start_of_simulation() override { go_on(); }

    void completed() override { go_on(); }

private:
    const Setting &setting;
    const std::vector<Arrival> &arrivals;
    Processors &processors;
    sc_event arrived;
    std::vector<Packet> window;
    size_t next = 0;  // the packet on the line, or the next one to be on it
    bool is_on_line = false;

    void arrive() {
        window.push_back({now_ps(), arrivals[next].size_bytes, arrivals[next].sa});
        ++next;
        is_on_line = false;
        go_on();
    }

    void go_on() {
        while (is_due() && dispatch()) {}
        if (!is_on_line && next < arrivals.size() && window.size() < setting.window) {
            is_on_line = true;
            notify_at(arrived, nearest(arrivals[next].size_bytes * (8e6 / setting.line_mbps)), ARRIVAL_RANK);
        }
    }

    bool is_due() const {
        return window.size() >= setting.window || (next == arrivals.size() && !window.empty());
    }

    MultiPacket group() const {
        MultiPacket group;
        for (const Packet &packet : window) {
            if (packet.sa != window.front().sa) continue;
            ++group.packets;
            group.size_bytes += packet.size_bytes;
            group.blocks += (packet.size_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
            group.arrived_ps += packet.arrived_ps;
        }
        return group;
    }

    // Returns false if the packet has to wait for room.
    bool dispatch() {
        MultiPacket job = group();
        const bool skips = setting.full_queue == "skip";
        Processor *best = nullptr;
        uint64_t best_ps = 0;
        // On a tie the accelerators in their order, then the CPU.
        for (size_t turn = 1; turn <= processors.size(); ++turn) {
            Processor &processor = *processors[turn % processors.size()];
            if (skips && !processor.has_room(job.packets)) continue;
            const uint64_t cost_ps = processor.cost_ps(job.blocks);
            const uint64_t finish_ps = processor.wait_ps() + cost_ps;
            if (best != nullptr && finish_ps >= best_ps) continue;
            best = &processor;
            best_ps = finish_ps;
            job.cost_ps = cost_ps;
        }
        if (best == nullptr || !best->has_room(job.packets)) return false;
        const uint32_t sa = window.front().sa;
        const auto is_taken = [sa](const Packet &packet) { return packet.sa == sa; };
        window.erase(std::remove_if(window.begin(), window.end(), is_taken), window.end());
        job.scheduled_ps = now_ps();
        best->accept(job);
        return true;
    }
};

template <typename Value>
void print_list(const char *name, const char *format, const Processors &processors, Value value, const char *end) {
    std::printf("\"%s\": [", name);
    for (size_t at = 0; at < processors.size(); ++at) {
        if (at > 0) std::printf(", ");
        std::printf(format, value(processors[at]->served));
    }
    std::printf("]%s", end);
}

void print_exact(const Processors &processors, const Bus &bus) {
    std::printf("\"exact\": {");
    const auto print = [&](const char *name, uint64_t Served::*field) {
        print_list(name, "%" PRIu64, processors, [field](const Served &served) { return served.*field; }, ", ");
    };
    print("packets", &Served::packets);
    print("multi_packets", &Served::multi_packets);
    print("size_bytes", &Served::size_bytes);
    print("latency_ps", &Served::latency_ps);
    print("sojourn_ps", &Served::sojourn_ps);
    print("last_ps", &Served::last_ps);
    std::printf("\"bus\": [%" PRIu64 ", %" PRIu64 "]}}\n", bus.requests, bus.conflicts);
}

// The mean, or 0 if nothing was counted.
double over(uint64_t sum, uint64_t count) {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

// Duration of the simulation, without reading the trace.
struct Speed {
    double wall_s, cpu_s;
};

void print_report(const Processors &processors, const Bus &bus, uint64_t packets, const Speed &speed) {
    Served all;
    for (const auto &processor : processors) {
        const Served &served = processor->served;
        all.packets += served.packets;
        all.multi_packets += served.multi_packets;
        all.size_bytes += served.size_bytes;
        all.latency_ps += served.latency_ps;
        all.sojourn_ps += served.sojourn_ps;
        all.last_ps = std::max(all.last_ps, served.last_ps);
    }
    if (all.packets != packets) throw std::logic_error("packets were lost on the way");
    const auto share = [&](const Served &served) { return over(served.packets, packets); };
    const auto length = [](const Served &served) { return over(served.size_bytes, served.multi_packets); };
    const auto number = [](const char *name, double value) { std::printf("\"%s\": %.17g, ", name, value); };
    std::printf("{\"packets\": %" PRIu64 ", ", packets);
    print_list("share", "%.17g", processors, share, ", ");
    print_list("average_length", "%.17g", processors, length, ", ");
    number("average_length_scheduled", length(all));
    number("packets_per_multipacket", over(packets, all.multi_packets));
    number("throughput_mbps", over(all.size_bytes, all.last_ps) * 8e6);
    number("latency_ms", over(all.latency_ps, packets) / 1e9);
    number("sojourn_ms", over(all.sojourn_ps, packets) / 1e9);
    number("bus_conflicts", over(bus.conflicts, bus.requests));
    number("wall_s", speed.wall_s);
    number("cpu_s", speed.cpu_s);
    number("packets_per_second", static_cast<double>(packets) / speed.cpu_s);
    print_exact(processors, bus);
}

void simulate(const Setting &setting) {
    const std::vector<Arrival> arrivals = read_trace(setting);
    const auto began = std::chrono::steady_clock::now();
    const std::clock_t cpu_began = std::clock();
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
    Bus bus("bus", setting);
    Processors processors;
    for (uint32_t number = 0; number <= setting.accelerators; ++number) {
        const std::string name = number == 0 ? "cpu" : "accelerator" + std::to_string(number);
        processors.push_back(std::make_unique<Processor>(name.c_str(), setting, number, bus));
    }
    Scheduler scheduler("scheduler", setting, arrivals, processors);
    for (auto &processor : processors) processor->listener = &scheduler;
    sc_core::sc_start();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    const double cpu_s = static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC;
    print_report(processors, bus, arrivals.size(), {wall.count(), cpu_s});
}

}  // namespace

int sc_main(int count, char *arguments[]) {
    try {
        simulate(read_setting(count, arguments));
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "systemc_model: %s\n", error.what());
        return 2;
    }
}
