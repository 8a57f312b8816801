// The verilated card and its surroundings: host memory for the bus master, register access, and the
// Ethernet line.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "Vcard.h"
#include "line.h"
#include "verilated.h"

namespace {

constexpr unsigned WORD_BYTES = 8;

struct Memory {
    uint8_t *bytes;
    size_t len;
};

// Host memory behind the bus. Serves one burst at a time: a command, then a word in each bus clock.
// The bus clock is a fraction of the card's clock.
class Bus {
  public:
    void clock(uint32_t clocks, uint32_t cycles) {
        clocks_ = clocks;
        cycles_ = cycles;
        due_ = 0;
    }

    void offer(Vcard &top, const Memory &memory) {
        due_ += clocks_;
        ticks_ = due_ >= cycles_;
        if (ticks_) due_ -= cycles_;
        top.bus_cmd_ready = ticks_ && left_ == 0;
        top.bus_rd_valid = ticks_ && left_ != 0 && !write_;
        top.bus_wr_ready = ticks_ && left_ != 0 && write_;
        uint64_t word = 0;
        if (top.bus_rd_valid && inside(memory)) std::memcpy(&word, memory.bytes + at_, WORD_BYTES);
        top.bus_rd_data = word;
    }

    // Transfers what the clock edge will transfer; called before the edge, when the signals have
    // settled.
    void take(const Vcard &top, const Memory &memory) {
        if (!ticks_) return;
        if (left_ == 0) {
            if (!top.bus_cmd_valid) return;
            write_ = top.bus_cmd_write;
            at_ = top.bus_cmd_addr;
            left_ = top.bus_cmd_words;
            return;
        }
        if (write_ ? !top.bus_wr_valid : !top.bus_rd_ready) return;
        if (!inside(memory)) strayed_ = true;
        else if (write_) store(top, memory);
        at_ += WORD_BYTES;
        left_ -= 1;
    }

    bool strayed() const { return strayed_; }

  private:
    bool inside(const Memory &memory) const { return size_t{at_} + WORD_BYTES <= memory.len; }

    void store(const Vcard &top, const Memory &memory) const {
        for (unsigned lane = 0; lane < WORD_BYTES; lane++)
            if (top.bus_wr_strb >> lane & 1) memory.bytes[at_ + lane] = static_cast<uint8_t>(top.bus_wr_data >> 8 * lane);
    }

    bool write_ = false, strayed_ = false, ticks_ = true;
    uint32_t at_ = 0, left_ = 0;
    uint32_t clocks_ = 1, cycles_ = 1, due_ = 0;  // bus clocks per card cycles, as a ratio; its remainder so far
};

}  // namespace

struct convoy_card {
    VerilatedContext context;
    std::unique_ptr<Vcard> top;
    Bus bus;
    Line line;

    convoy_card() : top(new Vcard(&context)) {
        const Memory none{nullptr, 0};
        top->tx_ce = 1;
        top->rx_ce = 1;
        top->rst = 1;
        for (int n = 0; n < 8; n++) cycle(none);
        top->rst = 0;
    }

    ~convoy_card() { top->final(); }

    void cycle(const Memory &memory) {
        bus.offer(*top, memory);
        line.offer(*top);
        top->clk = 0;
        top->eval();
        bus.take(*top, memory);
        line.take(*top);
        top->clk = 1;
        top->eval();
    }
};

// Running out of memory ends the program, since no exception may reach the Rust caller.
extern "C" {

convoy_card *convoy_card_new() noexcept {
    try {
        return new convoy_card;
    } catch (...) {
        return nullptr;
    }
}

void convoy_card_free(convoy_card *card) noexcept { delete card; }

// Sets the bus clock: `clocks` in `cycles` of the card, at most one in each; 1 and 1 after a reset.
void convoy_card_bus(convoy_card *card, uint32_t clocks, uint32_t cycles) noexcept { card->bus.clock(clocks, cycles); }

void convoy_card_write(convoy_card *card, uint8_t *bytes, size_t len, uint8_t address, uint32_t value) noexcept {
    card->top->reg_valid = card->top->reg_write = 1;
    card->top->reg_addr = address;
    card->top->reg_wdata = value;
    card->cycle({bytes, len});
    card->top->reg_valid = card->top->reg_write = 0;
}

uint32_t convoy_card_read(convoy_card *card, uint8_t *bytes, size_t len, uint8_t address) noexcept {
    card->top->reg_valid = 1;
    card->top->reg_addr = address;
    card->cycle({bytes, len});
    card->top->reg_valid = 0;
    return card->top->reg_rdata;
}

// Steps until the interrupt is raised, for at most `cycles`. Returns 1 if it was raised, 0 if not,
// and -1 if the card accessed an address outside the memory.
int convoy_card_run(convoy_card *card, uint8_t *bytes, size_t len, uint64_t cycles) noexcept {
    const Memory memory{bytes, len};
    for (; cycles != 0 && !card->top->irq && !card->bus.strayed(); cycles--) card->cycle(memory);
    return card->bus.strayed() ? -1 : card->top->irq;
}

// Queues a frame, from destination address to payload, on the line to the card. Returns 0 if the
// queue is full.
int convoy_card_line_offer(convoy_card *card, const uint8_t *frame, size_t len) noexcept { return card->line.put(frame, len); }

// Takes the next frame that the card has sent, without FCS. Returns its length, 0 if there is none,
// and -1 if it is damaged or longer than `room`.
ptrdiff_t convoy_card_line_take(convoy_card *card, uint8_t *frame, size_t room) noexcept { return card->line.next(frame, room); }
}
