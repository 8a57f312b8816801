// What systemc_model.cpp is told: its command line and the trace.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

// The parameters of the model; the defaults are the paper's platform.
struct Setting {
    std::string trace;
    size_t packets = SIZE_MAX;
    size_t window = 30, depth = 10;
    std::string full_queue = "wait", depth_unit = "multi-packets";
    uint32_t accelerators = 1;
    double init_ratio = 3, enc_ratio = 3;
    bool prefetch = false;
    double init_us = 2, block_mbps = 230, bus_mhz = 66, line_mbps = 1000;
    uint32_t address_cycles = 1, width_bytes = 4;
};

// A packet of the trace: the bytes to process, headers included.
struct Arrival {
    uint32_t size_bytes;
    uint32_t sa;
};

constexpr uint32_t HEADER_BYTES = 40;

inline Setting read_setting(int count, char *arguments[]) {
    std::map<std::string, std::string> given;
    for (int at = 1; at < count; ++at) {
        const std::string flag = arguments[at];
        if (flag == "--prefetch") given[flag] = "1";
        else if (at + 1 < count) given[flag] = arguments[++at];
        else throw std::runtime_error(flag + ": expected a value behind it");
    }
    const auto take = [&](const char *flag, auto &value) {
        const auto found = given.find(flag);
        if (found == given.end()) return;
        std::istringstream text(found->second);
        if (!(text >> value) || !text.eof()) {
            throw std::runtime_error(found->first + ": cannot read " + found->second);
        }
        given.erase(found);
    };
    Setting setting;
    if (const auto found = given.find("--trace"); found != given.end()) {
        setting.trace = found->second;
        given.erase(found);
    }
    take("--packets", setting.packets);
    take("--window", setting.window);
    take("--accelerators", setting.accelerators);
    take("--init-ratio", setting.init_ratio);
    take("--enc-ratio", setting.enc_ratio);
    take("--depth", setting.depth);
    take("--full-queue", setting.full_queue);
    take("--depth-unit", setting.depth_unit);
    take("--prefetch", setting.prefetch);
    take("--init-us", setting.init_us);
    take("--block-mbps", setting.block_mbps);
    take("--bus-mhz", setting.bus_mhz);
    take("--address-cycles", setting.address_cycles);
    take("--width-bytes", setting.width_bytes);
    take("--line-mbps", setting.line_mbps);
    if (!given.empty()) throw std::runtime_error(given.begin()->first + ": no such option");
    if (setting.trace.empty()) throw std::runtime_error("--trace FILE is wanted");
    if (setting.full_queue != "wait" && setting.full_queue != "skip") {
        throw std::runtime_error("--full-queue: expected wait or skip");
    }
    if (setting.depth_unit != "multi-packets" && setting.depth_unit != "packets") {
        throw std::runtime_error("--depth-unit: expected multi-packets or packets");
    }
    if (setting.window == 0) throw std::runtime_error("--window: expected at least 1");
    return setting;
}

// The six columns of the Internet Traffic Archive; the SA is the destination.
inline std::vector<Arrival> read_trace(const Setting &setting) {
    std::ifstream lines(setting.trace);
    if (!lines) throw std::runtime_error(setting.trace + ": cannot be read");
    std::vector<Arrival> arrivals;
    std::unordered_map<std::string, uint32_t> sas;
    std::string line, skipped, destination;
    for (size_t number = 1; arrivals.size() < setting.packets && std::getline(lines, line); ++number) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream columns(line);
        uint32_t payload_bytes = 0;
        columns >> skipped >> skipped >> destination >> skipped >> skipped >> payload_bytes;
        if (!columns || !(columns >> std::ws).eof()) {
            throw std::runtime_error(setting.trace + ":" + std::to_string(number) +
                                     ": expected six columns, the last of them bytes");
        }
        const uint32_t sa = sas.emplace(destination, sas.size()).first->second;
        arrivals.push_back({payload_bytes + HEADER_BYTES, sa});
    }
    const bool is_short = setting.packets != SIZE_MAX && arrivals.size() < setting.packets;
    if (arrivals.empty() || is_short) {
        throw std::runtime_error(setting.trace + ": has only " + std::to_string(arrivals.size()) + " packets");
    }
    return arrivals;
}
