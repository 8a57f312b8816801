// The least work of a gateway with AF_XDP ports: one thread passes every IPv4 frame of one
// interface unchanged to the other, and back, without inspecting it, in copy mode and with one
// packet memory for both. It sleeps while nothing arrives; after frames have arrived, it waits for
// some microseconds so that more gather.
// usage: forward INTERFACE INTERFACE generic|native MICROSECONDS
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 8192, FRAME_BYTES = 2048, DESCRIPTORS = 2048, BURST = 32, SIDES = 2 };

struct ring {
    uint32_t *producer, *consumer, *flags;
    void *entries;
    uint32_t at;
};
struct side {
    int descriptor;
    struct ring receive, send, fill, done;
};

static uint8_t *memory;
static uint64_t spare[FRAMES];
static int spares;

static long must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static struct ring map_ring(int descriptor, const struct xdp_ring_offset *offsets, off_t at, size_t entry_bytes) {
    size_t bytes = offsets->desc + DESCRIPTORS * entry_bytes;
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, at);
    must(base == MAP_FAILED ? -1 : 0, "mmap");
    return (struct ring){(void *)(base + offsets->producer), (void *)(base + offsets->consumer), (void *)(base + offsets->flags),
                         base + offsets->desc, 0};
}

// The first socket owns the packet memory, the second one shares it.
static void open_side(struct side *side, const char *interface, int first) {
    int count = DESCRIPTORS;
    side->descriptor = must(socket(AF_XDP, SOCK_RAW, 0), "socket");
    if (first < 0) {
        struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = (uint64_t)FRAMES * FRAME_BYTES, .chunk_size = FRAME_BYTES};
        must(setsockopt(side->descriptor, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem), "XDP_UMEM_REG");
    }
    int rings[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING};
    for (int at = 0; at < 4; at++) must(setsockopt(side->descriptor, SOL_XDP, rings[at], &count, sizeof count), "ring");
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    must(getsockopt(side->descriptor, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length), "XDP_MMAP_OFFSETS");
    side->receive = map_ring(side->descriptor, &offsets.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    side->send = map_ring(side->descriptor, &offsets.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    side->fill = map_ring(side->descriptor, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t));
    side->done = map_ring(side->descriptor, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t));
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(interface)};
    address.sxdp_flags = first < 0 ? XDP_COPY | XDP_USE_NEED_WAKEUP : XDP_SHARED_UMEM;
    address.sxdp_shared_umem_fd = first < 0 ? 0 : first;
    must(bind(side->descriptor, (void *)&address, sizeof address), interface);
}

// Redirects IPv4 to the socket; the rest (ARP, IPv6) passes to the kernel.
static void attach(const struct side *side, const char *interface, unsigned mode) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int map = must(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr), "BPF_MAP_CREATE");
    uint32_t key = 0, value = side->descriptor;
    memset(&attr, 0, sizeof attr);
    attr.map_fd = map, attr.key = (uintptr_t)&key, attr.value = (uintptr_t)&value;
    must(syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof attr), "BPF_MAP_UPDATE_ELEM");
    struct bpf_insn code[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 0},  // data
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = 4},  // data_end
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 4, .src_reg = 2},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = 14},
        {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = 4, .src_reg = 3},
        {.code = BPF_LDX | BPF_MEM | BPF_H, .dst_reg = 5, .src_reg = 2, .off = 12},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 5, .imm = 0x0008},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map}, {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT}};
    // Both jumps lead behind the first exit.
    code[4].off = 8, code[6].off = 6;
    static char log[1 << 14];
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_XDP, attr.insns = (uintptr_t)code, attr.insn_cnt = sizeof code / sizeof *code;
    attr.license = (uintptr_t) "Dual MIT/GPL", attr.log_buf = (uintptr_t)log, attr.log_size = sizeof log, attr.log_level = 1;
    int program = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
    if (program < 0) fprintf(stderr, "%s", log);
    must(program, "BPF_PROG_LOAD");
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = program, attr.link_create.target_ifindex = if_nametoindex(interface);
    attr.link_create.attach_type = BPF_XDP, attr.link_create.flags = mode;
    // The kernel detaches it when this process ends.
    must(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr), "BPF_LINK_CREATE");
}

static void fill(struct side *side, int count) {
    uint64_t *entries = side->fill.entries;
    for (; count > 0 && spares > 0; count--) entries[side->fill.at++ % DESCRIPTORS] = spare[--spares];
    __atomic_store_n(side->fill.producer, side->fill.at, __ATOMIC_RELEASE);
}

static void take_back(struct side *side) {
    uint64_t *entries = side->done.entries;
    uint32_t until = __atomic_load_n(side->done.producer, __ATOMIC_ACQUIRE);
    while (side->done.at != until) spare[spares++] = entries[side->done.at++ % DESCRIPTORS];
    __atomic_store_n(side->done.consumer, side->done.at, __ATOMIC_RELEASE);
}

// Moves up to a burst, as far as there is room; returns the number of frames.
static int forward(struct side *from, struct side *to) {
    take_back(to);
    uint32_t waiting = __atomic_load_n(from->receive.producer, __ATOMIC_ACQUIRE) - from->receive.at;
    uint32_t room = DESCRIPTORS - (to->send.at - __atomic_load_n(to->send.consumer, __ATOMIC_ACQUIRE));
    uint32_t count = waiting < BURST ? waiting : BURST;
    if (count > room) count = room;
    struct xdp_desc *in = from->receive.entries, *out = to->send.entries;
    for (uint32_t at = 0; at < count; at++) out[to->send.at++ % DESCRIPTORS] = in[from->receive.at++ % DESCRIPTORS];
    if (count == 0) return 0;
    __atomic_store_n(from->receive.consumer, from->receive.at, __ATOMIC_RELEASE);
    __atomic_store_n(to->send.producer, to->send.at, __ATOMIC_RELEASE);
    fill(from, count);
    if (*to->send.flags & XDP_RING_NEED_WAKEUP && sendto(to->descriptor, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
        errno != EBUSY && errno != ENOBUFS)
        must(-1, "sendto");
    return count;
}

int main(int count, char **words) {
    if (count != 5) return fprintf(stderr, "usage: forward INTERFACE INTERFACE generic|native MICROSECONDS\n"), 2;
    struct timespec gather = {0, atol(words[4]) * 1000};
    must(prctl(PR_SET_TIMERSLACK, 1000), "PR_SET_TIMERSLACK");
    unsigned mode = strcmp(words[3], "native") == 0 ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    memory = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    must(memory == MAP_FAILED ? -1 : 0, "mmap");
    for (int at = 0; at < FRAMES; at++) spare[spares++] = (uint64_t)at * FRAME_BYTES;
    struct side sides[SIDES];
    for (int at = 0; at < SIDES; at++) {
        open_side(&sides[at], words[1 + at], at == 0 ? -1 : sides[0].descriptor);
        attach(&sides[at], words[1 + at], mode);
        fill(&sides[at], DESCRIPTORS - 1);
    }
    printf("ready\n");
    fflush(stdout);
    struct pollfd waits[SIDES] = {{sides[0].descriptor, POLLIN, 0}, {sides[1].descriptor, POLLIN, 0}};
    for (int came = 0;;) {
        int moved = forward(&sides[0], &sides[1]) + forward(&sides[1], &sides[0]);
        if (moved == 0 && came && gather.tv_nsec)
            nanosleep(&gather, NULL);
        else if (moved == 0)
            must(poll(waits, SIDES, -1), "poll");
        came = moved;
    }
}
