// The verilated card and its surroundings: host memory for the bus master, register access, and the
// Ethernet line. There are several models of the card, which differ in their functions.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "line.h"
#include "models.h"  // by build.rs: includes the models, and names each with its number in MODELS
#include "verilated.h"

// A piece of the host's memory that the card may access.
struct Span {
    uint8_t *bytes;
    size_t len;
};

// What the bus reaches: the window from address 0 on, and spans, each at `mapped` plus its number
// shifted by `shift` bits, plus the lowest three bits of its address in the host, so that the card
// meets it as misaligned as it is. What is in neither is not accessed, as behind an IOMMU.
struct Memory {
    Span window;
    const Span *spans;
    size_t count;
    uint32_t mapped, shift;
};

// A byte of the host's memory; null if the bus does not reach it.
inline uint8_t *reach(const Memory &memory, uint32_t address) {
    if (address < memory.window.len) return memory.window.bytes + address;
    if (address < memory.mapped) return nullptr;
    const size_t number = (address - memory.mapped) >> memory.shift;
    if (number >= memory.count) return nullptr;
    const Span &span = memory.spans[number];
    const size_t lead = reinterpret_cast<uintptr_t>(span.bytes) % 8;
    const size_t at = (address - memory.mapped) & ((1U << memory.shift) - 1);
    return at < lead || at - lead >= span.len ? nullptr : span.bytes + (at - lead);
}

// A card of any model.
struct convoy_card {
    virtual ~convoy_card() = default;
    virtual void clock_bus(uint32_t clocks, uint32_t cycles) = 0;
    virtual void clock_line(uint32_t clocks, uint32_t cycles) = 0;
    virtual void write(const Memory &memory, uint8_t address, uint32_t value) = 0;
    virtual uint32_t read(const Memory &memory, uint8_t address) = 0;
    virtual int run(const Memory &memory, uint64_t cycles) = 0;
    Line line;
};

namespace {

constexpr unsigned WORD_BYTES = 8;

// A clock as so many in so many cycles of the card, spread evenly.
class Ratio {
  public:
    Ratio() = default;
    Ratio(uint32_t clocks, uint32_t cycles) : clocks_(clocks), cycles_(cycles) {}

    // Adds the clocks of one cycle of the card.
    void advance() { due_ += clocks_; }

    // Whether one of them is due; it is then taken.
    bool tick() {
        if (due_ < cycles_) return false;
        due_ -= cycles_;
        return true;
    }

  private:
    uint32_t clocks_ = 1, cycles_ = 1, due_ = 0;  // due_: what is left of the cycles so far
};

// Host memory behind the bus. Serves one burst at a time: a command, then a word in each bus clock.
// The bus clock is a fraction of the card's clock.
class Bus {
  public:
    void clock(uint32_t clocks, uint32_t cycles) { clock_ = Ratio(clocks, cycles); }

    template <class Top> void offer(Top &top, const Memory &memory) {
        clock_.advance();
        ticks_ = clock_.tick();
        top.bus_cmd_ready = ticks_ && left_ == 0;
        top.bus_rd_valid = ticks_ && left_ != 0 && !write_;
        top.bus_wr_ready = ticks_ && left_ != 0 && write_;
        uint64_t word = 0;
        if (top.bus_rd_valid) load(word, memory);
        top.bus_rd_data = word;
    }

    // Transfers what the clock edge will transfer; called before the edge, when the signals have
    // settled.
    template <class Top> void take(const Top &top, const Memory &memory) {
        if (!ticks_) return;
        if (left_ == 0) {
            if (!top.bus_cmd_valid) return;
            write_ = top.bus_cmd_write;
            at_ = top.bus_cmd_addr;
            left_ = top.bus_cmd_words;
            return;
        }
        if (write_ ? !top.bus_wr_valid : !top.bus_rd_ready) return;
        if (write_) store(top, memory);
        at_ += WORD_BYTES;
        left_ -= 1;
    }

    bool strayed() const { return strayed_; }

  private:
    // A word may begin before a span and end behind it: only the rest is the host's.
    void load(uint64_t &word, const Memory &memory) {
        bool is_any = false;
        for (unsigned lane = 0; lane < WORD_BYTES; lane++)
            if (const uint8_t *byte = reach(memory, at_ + lane)) {
                word |= uint64_t{*byte} << 8 * lane;
                is_any = true;
            }
        strayed_ |= !is_any;
    }

    template <class Top> void store(const Top &top, const Memory &memory) {
        for (unsigned lane = 0; lane < WORD_BYTES; lane++) {
            if (!(top.bus_wr_strb >> lane & 1)) continue;
            if (uint8_t *byte = reach(memory, at_ + lane)) *byte = static_cast<uint8_t>(top.bus_wr_data >> 8 * lane);
            else strayed_ = true;
        }
    }

    bool write_ = false, strayed_ = false, ticks_ = true;
    uint32_t at_ = 0, left_ = 0;
    Ratio clock_;
};

template <class Top> class Model final : public convoy_card {
  public:
    Model() : top_(new Top(&context_)) {
        const Memory none{};
        top_->rst = 1;
        for (int n = 0; n < RESET_CYCLES; n++) cycle(none);
        top_->rst = 0;
    }

    ~Model() override { top_->final(); }

    void clock_bus(uint32_t clocks, uint32_t cycles) override { bus_.clock(clocks, cycles); }

    void clock_line(uint32_t clocks, uint32_t cycles) override { line_clock_ = Ratio(clocks, cycles); }

    void write(const Memory &memory, uint8_t address, uint32_t value) override {
        top_->reg_valid = top_->reg_write = 1;
        top_->reg_addr = address;
        top_->reg_wdata = value;
        cycle(memory);
        top_->reg_valid = top_->reg_write = 0;
    }

    uint32_t read(const Memory &memory, uint8_t address) override {
        top_->reg_valid = 1;
        top_->reg_addr = address;
        cycle(memory);
        top_->reg_valid = 0;
        return top_->reg_rdata;
    }

    int run(const Memory &memory, uint64_t cycles) override {
        for (; cycles != 0 && !top_->irq && !bus_.strayed(); cycles--) cycle(memory);
        return bus_.strayed() ? -1 : top_->irq;
    }

  private:
    // Reset is held while both clocks run at the same rate.
    static constexpr int RESET_CYCLES = 8;

    void cycle(const Memory &memory) {
        for (line_clock_.advance(); line_clock_.tick();) line_cycle();
        bus_.offer(*top_, memory);
        top_->clk = 0;
        top_->eval();
        bus_.take(*top_, memory);
        top_->clk = 1;
        top_->eval();
    }

    void line_cycle() {
        line.offer(*top_);
        top_->mac_clk = 0;
        top_->eval();
        line.take(*top_);
        top_->mac_clk = 1;
        top_->eval();
    }

    VerilatedContext context_;
    std::unique_ptr<Top> top_;
    Bus bus_;
    Ratio line_clock_;
};

convoy_card *make(uint32_t model) {
    switch (model) {
#define MODEL(number, Top) \
    case number: return new Model<Top>;
        MODELS(MODEL)
#undef MODEL
        default: return nullptr;
    }
}

}  // namespace

// Running out of memory ends the program, since no exception may reach the Rust caller.
extern "C" {

// A card of one of the models, by its number; null if there is no such model.
convoy_card *convoy_card_new(uint32_t model) noexcept {
    try {
        return make(model);
    } catch (...) {
        return nullptr;
    }
}

void convoy_card_free(convoy_card *card) noexcept { delete card; }

// Sets the bus clock: `clocks` in `cycles` of the card, at most one in each; 1 and 1 after a reset.
void convoy_card_bus(convoy_card *card, uint32_t clocks, uint32_t cycles) noexcept { card->clock_bus(clocks, cycles); }

// Sets the line's clock: `clocks` in `cycles` of the card, a byte in each; 1 and 1 after a reset.
void convoy_card_line(convoy_card *card, uint32_t clocks, uint32_t cycles) noexcept { card->clock_line(clocks, cycles); }

void convoy_card_write(convoy_card *card, const Memory *memory, uint8_t address, uint32_t value) noexcept {
    card->write(*memory, address, value);
}

uint32_t convoy_card_read(convoy_card *card, const Memory *memory, uint8_t address) noexcept { return card->read(*memory, address); }

// Steps until the interrupt is raised, for at most `cycles`. Returns 1 if it was raised, 0 if not,
// and -1 if the card accessed an address outside the memory.
int convoy_card_run(convoy_card *card, const Memory *memory, uint64_t cycles) noexcept { return card->run(*memory, cycles); }

// Queues a frame, from destination address to payload, on the line to the card. Returns 0 if the
// queue is full.
int convoy_card_line_offer(convoy_card *card, const uint8_t *frame, size_t len) noexcept { return card->line.put(frame, len); }

// Takes the next frame that the card has sent, without FCS. Returns its length, 0 if there is none,
// and -1 if it is damaged or longer than `room`.
ptrdiff_t convoy_card_line_take(convoy_card *card, uint8_t *frame, size_t room) noexcept { return card->line.next(frame, room); }
}
