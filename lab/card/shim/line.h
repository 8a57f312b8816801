// The far end of the card's GMII at full rate, one byte per cycle of the line's clock. Adds
// preamble, padding, FCS and gap to frames, and removes them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

// CRC-32 of IEEE 802.3, bit-reflected.
class Crc {
  public:
    static uint32_t of(const uint8_t *bytes, size_t len) {
        static const Crc crc;
        uint32_t sum = ~uint32_t{0};
        for (size_t n = 0; n < len; n++) sum = sum >> 8 ^ crc.table_[(sum ^ bytes[n]) & 0xff];
        return ~sum;
    }

  private:
    Crc() {
        for (uint32_t n = 0; n < table_.size(); n++) {
            uint32_t sum = n;
            for (int bit = 0; bit < 8; bit++) sum = sum & 1 ? sum >> 1 ^ 0xedb88320 : sum >> 1;
            table_[n] = sum;
        }
    }

    std::array<uint32_t, 256> table_;
};

class Line {
  public:
    // Queues a frame without FCS for the card; false if the queue is full.
    bool put(const uint8_t *frame, size_t len) {
        if (towards_.size() >= WAITING) return false;
        std::vector<uint8_t> wire(PREAMBLE_BYTES, 0x55);
        wire.back() = 0xd5;
        wire.insert(wire.end(), frame, frame + len);
        if (len < SHORTEST) wire.insert(wire.end(), SHORTEST - len, 0);
        const uint32_t fcs = Crc::of(wire.data() + PREAMBLE_BYTES, wire.size() - PREAMBLE_BYTES);
        for (unsigned n = 0; n < FCS_BYTES; n++) wire.push_back(static_cast<uint8_t>(fcs >> 8 * n));
        towards_.push_back(std::move(wire));
        return true;
    }

    // The next frame from the card, without FCS. Returns its length, 0 if there is none, and -1 if
    // it is damaged or does not fit.
    ptrdiff_t next(uint8_t *frame, size_t room) {
        if (from_.empty()) return 0;
        const std::vector<uint8_t> wire = std::move(from_.front());
        from_.pop_front();
        const ptrdiff_t len = static_cast<ptrdiff_t>(wire.size()) - PREAMBLE_BYTES - FCS_BYTES;
        if (len < SHORTEST || static_cast<size_t>(len) > room || !has_preamble(wire)) return -1;
        const uint8_t *body = wire.data() + PREAMBLE_BYTES;
        const uint32_t fcs = Crc::of(body, len);
        for (unsigned n = 0; n < FCS_BYTES; n++)
            if (body[len + n] != static_cast<uint8_t>(fcs >> 8 * n)) return -1;
        std::memcpy(frame, body, len);
        return len;
    }

    // Begins a byte time: sets the signals that the card sees before the clock edge.
    template <class Top> void offer(Top &top) {
        top.gmii_rx_dv = !towards_.empty() && gap_ == 0;
        top.gmii_rxd = top.gmii_rx_dv ? towards_.front()[at_] : 0;
    }

    // Ends a byte time.
    template <class Top> void take(const Top &top) {
        if (top.gmii_rx_dv) {
            if (++at_ == towards_.front().size()) {
                towards_.pop_front();
                at_ = 0;
                gap_ = GAP_BYTES;
            }
        } else if (gap_ != 0) {
            gap_ -= 1;
        }
        if (top.gmii_tx_en) {
            coming_.push_back(top.gmii_txd);
            broken_ |= top.gmii_tx_er;
        } else if (!coming_.empty()) {
            if (broken_) coming_.clear();
            from_.push_back(std::move(coming_));
            coming_.clear();
            broken_ = false;
        }
    }

  private:
    static constexpr ptrdiff_t PREAMBLE_BYTES = 8, SHORTEST = 60, FCS_BYTES = 4;
    static constexpr unsigned GAP_BYTES = 12;
    // Capacity of the queue to the card, in frames.
    static constexpr size_t WAITING = 4;

    static bool has_preamble(const std::vector<uint8_t> &wire) {
        for (ptrdiff_t n = 0; n < PREAMBLE_BYTES - 1; n++)
            if (wire[n] != 0x55) return false;
        return wire[PREAMBLE_BYTES - 1] == 0xd5;
    }

    std::deque<std::vector<uint8_t>> towards_, from_;
    std::vector<uint8_t> coming_;
    size_t at_ = 0;
    unsigned gap_ = 0;
    bool broken_ = false;
};
