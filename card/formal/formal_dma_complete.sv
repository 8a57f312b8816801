// dma_complete: each finished descriptor makes one completion, in order and as it was; the ring
// never holds more than it has room for; an entry lies in the ring, its two words go to it in
// order, the phase is that of its lap; the interrupt comes when it is due. The host may read as far
// as has been written and no further, and changes neither base nor size.
module formal_dma_complete (
    input logic clk,
    input logic rst,
    input logic [31:0] base,
    input logic [15:0] mask,
    input logic [15:0] head,
    input logic tx_valid,
    input logic [31:0] tx_cookie,
    input logic tx_bad,
    input logic rx_valid,
    input logic [31:0] rx_cookie,
    input logic [15:0] rx_bytes,
    input logic rx_bad,
    input logic [63:0] rx_status,
    input logic req_ready,
    input logic wr_ready,
    input logic [15:0] irq_count,
    input logic [31:0] irq_time,
    input logic irq_ack
);
  logic [15:0] tail;
  logic tx_ready, rx_ready, req_valid, wr_valid, irq;
  logic [31:0] req_addr;
  logic [63:0] wr_data;
  dma_complete dut (.clk, .rst, .base, .mask, .head, .tail, .tx_valid, .tx_ready, .tx_cookie, .tx_bad, .rx_valid, .rx_ready, .rx_cookie,
      .rx_bytes, .rx_bad, .rx_status, .req_valid, .req_ready, .req_addr, .wr_valid, .wr_ready, .wr_data, .irq_count, .irq_time,
      .irq_ack, .irq);

  logic begun = 1'b0;
  logic [31:0] was_base, was_time, was_addr;
  logic [15:0] was_mask, was_count, was_head, was_tail;
  logic [1:0] was_waiting; // receive, transmit
  logic [144:0] offered, was_offered;
  logic was_asked;
  assign offered = {tx_cookie, tx_bad, rx_cookie, rx_bytes, rx_status};

  // The completion that is on its way, how far it is, and where it goes; turns lost while the other
  // direction was taken.
  logic [2:0] phase; // 0 none, 1 asked for, 2 first word, 3 second
  logic [63:0] word0, word1;
  logic took_tx, took_rx, written, lost_tx, lost_rx;
  logic lap;
  logic [15:0] waiting;
  logic [31:0] age;
  logic due;
  assign took_tx = tx_valid && tx_ready;
  assign took_rx = rx_valid && rx_ready;
  assign written = wr_valid && wr_ready && phase == 3'd3;
  assign lap = (tail & (mask + 16'd1)) == '0;
  assign due = (irq_count != '0 && waiting >= irq_count) || (irq_time != '0 && waiting != '0 && age >= irq_time);
  logic was_due, was_written;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_base <= base;
    was_mask <= mask;
    was_count <= irq_count;
    was_time <= irq_time;
    was_head <= rst ? '0 : head;
    was_tail <= rst ? '0 : tail;
    was_offered <= offered;
    was_waiting <= rst ? 2'b00 : {rx_valid && !rx_ready, tx_valid && !tx_ready};
    was_asked <= !rst && req_valid && !req_ready;
    was_addr <= req_addr;
    was_due <= !rst && due;
    was_written <= !rst && written;
    if (rst) begin
      phase <= '0;
      lost_tx <= 1'b0;
      lost_rx <= 1'b0;
      waiting <= '0;
      age <= '0;
    end else begin
      if (took_tx || took_rx) begin
        phase <= 3'd1;
        word0 <= took_rx ? rx_status : '0;
        word1 <= took_rx ? {13'b0, rx_bad, 1'b1, lap, rx_bytes, rx_cookie} : {13'b0, tx_bad, 1'b0, lap, 16'b0, tx_cookie};
      end
      if (phase == 3'd1 && req_valid && req_ready) phase <= 3'd2;
      if (phase == 3'd2 && wr_valid && wr_ready) phase <= 3'd3;
      if (written) phase <= '0;
      lost_tx <= tx_valid && (took_rx || (lost_tx && !took_tx));
      lost_rx <= rx_valid && (took_tx || (lost_rx && !took_rx));
      waiting <= due ? {15'b0, written} : waiting + {15'b0, written};
      age <= due ? '0 : age + {31'b0, waiting != '0};
    end
  end

  // What holds the induction together: the module's own state is the one that is expected. The .sby
  // connects these.
  (* keep *) logic [1:0] dut_state;
  (* keep *) logic [63:0] dut_word0, dut_word1;
  (* keep *) logic [15:0] dut_waiting;
  (* keep *) logic [31:0] dut_age;
  (* keep *) logic dut_receive;

  always_comb begin
    assume (begun || rst);
    assume ((mask & (mask + 16'd1)) == '0 && base[3:0] == '0);
    if (begun) assume (base == was_base && mask == was_mask && irq_count == was_count && irq_time == was_time);
    if (rst) assume (head == '0);
    if (begun && !rst) begin
      assume (head - was_head <= was_tail - was_head); // as far as was written
      if (was_waiting[0]) assume (tx_valid && was_offered[144:112] == offered[144:112]);
      if (was_waiting[1]) assume (rx_valid && was_offered[111:0] == offered[111:0]);

      never_more_than_the_ring_holds : assert ({1'b0, 16'(tail - head)} <= {1'b0, mask} + 17'd1);
      if (phase != '0) takes_none_without_room : assert (tail - head <= mask);
      one_at_a_time : assert (!(tx_ready && tx_valid && rx_ready && rx_valid) && (phase == '0 || !(took_tx || took_rx)));
      tail_counts_what_is_written : assert (tail == was_tail + {15'b0, was_written});
      asks_for_a_completion_that_is_there : assert (req_valid == (phase == 3'd1));
      if (req_valid) index_is_in_range : assert (req_addr == base + {12'b0, tail & mask, 4'b0});
      if (was_asked) request_stands : assert (req_valid && req_addr == was_addr);
      writes_two_words : assert (wr_valid == (phase == 3'd2 || phase == 3'd3));
      if (phase == 3'd2) first_word_is_the_status : assert (wr_data == word0);
      if (phase == 3'd3) last_word_has_cookie_and_phase : assert (wr_data == word1);
      if (took_rx) turns_transmit : assert (!lost_tx || !tx_valid);
      if (took_tx) turns_receive : assert (!lost_rx || !rx_valid);
      if (phase == '0 && tail - head <= mask && (tx_valid || rx_valid)) takes_one_when_there_is_room : assert (took_tx || took_rx);
      state_is_expected : assert ({1'b0, dut_state} == phase && dut_waiting == waiting && dut_age == age);
      if (phase != '0) words_are_expected : assert (dut_word0 == word0 && dut_word1 == word1);
      turn_is_expected : assert (!(lost_tx && !dut_receive) && !(lost_rx && dut_receive));
      if (was_due) interrupt_comes_when_it_is_due : assert (irq);
    end
  end
endmodule
