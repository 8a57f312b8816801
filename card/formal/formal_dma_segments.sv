// dma_segments: every descriptor of the ring is read once and in order, where it stands; the head
// never passes the tail; a table's entries are read in order and no further than its count; each
// descriptor gives its segments and then one that is the last. The host posts no more than the ring
// has entries and takes nothing back; base is a multiple of 16.
module formal_dma_segments (
    input logic clk,
    input logic rst,
    input logic on,
    input logic [31:0] base,
    input logic [15:0] mask,
    input logic [15:0] tail,
    input logic req_ready,
    input logic rd_valid,
    input logic [63:0] rd_data,
    input logic seg_ready
);
  logic [15:0] head, seg_bytes;
  logic req_valid, rd_ready, seg_valid, seg_last, seg_bad;
  logic [31:0] req_addr, seg_addr, seg_cookie;
  logic [5:0] req_words;
  logic [1:0] seg_target;
  dma_segments dut (.clk, .rst, .on, .base, .mask, .tail, .head, .req_valid, .req_ready, .req_addr, .req_words, .rd_valid, .rd_ready,
      .rd_data, .seg_valid, .seg_ready, .seg_addr, .seg_bytes, .seg_last, .seg_bad, .seg_cookie, .seg_target);

  // What is to happen next, from what was read: idle, a descriptor asked for, its two words, an
  // entry asked for, its word, a segment.
  localparam logic [2:0] IDLE = 0, ASK = 1, WORD0 = 2, WORD1 = 3, ASK_ENTRY = 4, ENTRY = 5, GIVE = 6;
  logic begun = 1'b0;
  logic [2:0] next;
  logic [15:0] taken; // descriptors read
  logic [31:0] where; // the buffer or the table
  logic [15:0] length;
  logic [8:0] count, given; // entries of the table, and those read
  logic table_used, bad, last;
  logic [31:0] cookie, part_addr;
  logic [15:0] part_bytes;
  logic [1:0] target;
  logic read;
  logic [31:0] was_base, was_req_addr;
  logic [15:0] was_mask, was_tail;
  logic was_asked, was_offered;
  logic [84:0] seg, was_seg;
  assign read = rd_valid && rd_ready;
  assign seg = {seg_addr, seg_bytes, seg_last, seg_bad, seg_cookie, seg_target, 1'b0};
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_base <= base;
    was_mask <= mask;
    was_tail <= rst ? '0 : tail;
    was_req_addr <= req_addr;
    was_asked <= !rst && req_valid && !req_ready;
    was_offered <= !rst && seg_valid && !seg_ready;
    was_seg <= seg;
    if (rst) begin
      next <= IDLE;
      taken <= '0;
    end else case (next)
      IDLE: if (on && taken != tail) next <= ASK;
      ASK: if (req_valid && req_ready) next <= WORD0;
      WORD0: if (read) begin
        {table_used, count, length, where} <= {rd_data[56], 1'b0, rd_data[55:48], rd_data[47:32], rd_data[31:0]};
        given <= '0;
        next <= WORD1;
      end
      WORD1: if (read) begin
        cookie <= rd_data[31:0];
        target <= rd_data[33:32];
        taken <= taken + 1'b1;
        part_addr <= where;
        part_bytes <= length;
        last <= 1'b1;
        bad <= table_used ? count == '0 || where[2:0] != '0 : length == '0;
        next <= table_used && count != '0 && where[2:0] == '0 ? ASK_ENTRY : GIVE;
      end
      ASK_ENTRY: if (req_valid && req_ready) next <= ENTRY;
      ENTRY: if (read) begin
        given <= given + 1'b1;
        part_addr <= rd_data[31:0];
        part_bytes <= rd_data[47:32];
        bad <= rd_data[47:32] == '0;
        last <= given + 9'd1 == count || rd_data[47:32] == '0;
        next <= GIVE;
      end
      default: if (seg_valid && seg_ready) next <= last ? IDLE : ASK_ENTRY;
    endcase
  end

  (* keep *) logic [2:0] dut_state;
  (* keep *) logic [31:0] dut_addr;
  (* keep *) logic [15:0] dut_length;
  (* keep *) logic [7:0] dut_count;
  (* keep *) logic dut_table_used;

  always_comb begin
    assume (begun || rst);
    assume ((mask & (mask + 16'd1)) == '0 && base[3:0] == '0);
    if (begun) assume (base == was_base && mask == was_mask);
    if (rst) assume (tail == '0);
    if (begun && !rst) begin
      assume ({1'b0, 16'(tail - head)} <= {1'b0, mask} + 17'd1 && tail - head >= was_tail - head);

      head_counts_what_was_read : assert (head == taken);
      if (next == ASK || next == WORD0 || next == WORD1) head_never_passes_tail : assert (head != tail);
      requests_when_expected : assert (req_valid == (next == ASK || next == ASK_ENTRY));
      if (next == ASK) descriptor_is_in_the_ring : assert (req_addr == base + {12'b0, taken & mask, 4'b0} && req_words == 6'd2);
      if (next == ASK_ENTRY) entries_in_order : assert (req_addr == where + {20'b0, given, 3'b0} && req_words == 6'd1);
      if (next == ASK_ENTRY) no_entry_beyond_the_count : assert (given < count);
      if (req_valid) request_crosses_no_line : assert (req_addr[2:0] == '0 && {4'b0, req_addr[7:3]} + {3'b0, req_words} <= 9'd32);
      if (was_asked) request_stands : assert (req_valid && req_addr == was_req_addr);
      reads_when_expected : assert (rd_ready == (next == WORD0 || next == WORD1 || next == ENTRY));
      gives_when_expected : assert (seg_valid == (next == GIVE));
      if (seg_valid) gives_what_the_host_wrote : assert (seg == {part_addr, part_bytes, last, bad, cookie, target, 1'b0});
      if (seg_valid && !seg_bad) gives_no_empty_segment : assert (seg_bytes != '0);
      if (seg_valid && seg_bad) bad_ends_the_descriptor : assert (seg_last);
      if (was_offered) segment_stands : assert (seg_valid && seg == was_seg);

      state_is_expected : assert (dut_state == next && next <= GIVE);
      if (next == WORD1) descriptor_is_kept : assert (dut_addr == where && dut_length == length && dut_table_used == table_used);
      if (next == WORD1) count_is_kept : assert (given == '0 && {1'b0, dut_count} == count);
      if (next == ASK_ENTRY || next == ENTRY || next == GIVE) rest_is_kept : assert (seg_cookie == cookie && seg_target == target);
      if (next == ASK_ENTRY || next == ENTRY || (next == GIVE && !last)) table_is_kept : assert (
          given < count && {1'b0, dut_count} == count - given && dut_addr == where + {20'b0, given, 3'b0} && where[2:0] == '0 && count <= 9'd255);
      if (next == GIVE) end_is_kept : assert (!bad || last);
      if (next == GIVE) segment_is_kept : assert (bad == (part_bytes == '0) || last);
    end
  end
endmodule
