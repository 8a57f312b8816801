// What the tests of the transmit half must have met.
module dma_transmit_points (
    input logic clk,
    input logic rst,
    input logic [15:0] mask, tail, head,
    input logic req_valid, req_ready, walking, rd_valid, m_valid, m_ready, pressed, room, done_valid, done_bad, begun, seg_bad, seg_last,
    input logic [2:0] state,
    input logic [5:0] req_words,
    input logic [31:0] seg_addr,
    input logic [15:0] seg_bytes
);
  logic taken; // a segment is taken up
  logic [2:0] was;
  logic [15:0] was_head;
  assign taken = was == 3'd0 && state == 3'd1;
  always_ff @(posedge clk) begin
    was <= rst ? 3'd0 : state;
    was_head <= rst ? 16'd0 : head;
  end
  ring_wraps : cover property (@(posedge clk) !rst && head != was_head && (head & mask) == '0);
  ring_full : cover property (@(posedge clk) !rst && {1'b0, 16'(tail - head)} == {1'b0, mask} + 17'd1);
  ring_empty_again : cover property (@(posedge clk) !rst && head != was_head && head == tail);
  burst_of_32_words : cover property (@(posedge clk) !rst && req_valid && req_ready && !walking && req_words == 6'd32);
  bus_pauses_in_a_burst : cover property (@(posedge clk) !rst && state == 3'd2 && !rd_valid);
  card_does_not_take : cover property (@(posedge clk) !rst && m_valid && !m_ready);
  waits_for_room : cover property (@(posedge clk) !rst && state == 3'd1 && !room);
  queue_runs_empty_with_work : cover property (@(posedge clk) !rst && pressed && state == 3'd1);
  bad_at_once : cover property (@(posedge clk) !rst && state == 3'd4 && !begun);
  bad_within_a_frame : cover property (@(posedge clk) !rst && state == 3'd4 && begun);
  bad_is_reported : cover property (@(posedge clk) !rst && done_valid && done_bad);
  segment_of_a_table : cover property (@(posedge clk) !rst && taken && !seg_last && !seg_bad);
  for (genvar start = 0; start < 8; start++) begin : g_start
    for (genvar length = 0; length < 8; length++) begin : g_length
      misaligned : cover property (@(posedge clk) !rst && taken && seg_addr[2:0] == 3'(start) && seg_bytes[2:0] == 3'(length));
    end
  end
endmodule
bind dma_transmit dma_transmit_points u_points (.*);
