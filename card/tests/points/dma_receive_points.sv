// What the tests of the receive half must have met.
module dma_receive_points (
    input logic clk,
    input logic rst,
    input logic [15:0] mask, tail, head,
    input logic s_valid, s_ready, wr_ready, pressed, fill, done_valid, broken, ended, eaten, seg_valid, seg_bad, seg_last,
    input logic [2:0] state,
    input logic [4:0] avail,
    input logic [5:0] filled,
    input logic [3:0] piece, want,
    input logic [13:0] words,
    input logic [31:0] seg_addr,
    input logic [15:0] seg_bytes, done_bytes
);
  logic [2:0] was;
  logic [15:0] was_head;
  logic taken, put;
  assign taken = was == 3'd0 && state == 3'd1;
  assign put = fill;
  always_ff @(posedge clk) begin
    was <= rst ? 3'd0 : state;
    was_head <= rst ? 16'd0 : head;
  end
  ring_wraps : cover property (@(posedge clk) !rst && head != was_head && (head & mask) == '0);
  ring_full : cover property (@(posedge clk) !rst && {1'b0, 16'(tail - head)} == {1'b0, mask} + 17'd1);
  frame_waits_for_a_buffer : cover property (@(posedge clk) !rst && head == tail && avail != '0);
  input_pauses_in_a_frame : cover property (@(posedge clk) !rst && state == 3'd1 && !fill);
  input_waits : cover property (@(posedge clk) !rst && s_valid && !s_ready);
  bus_pauses_in_a_burst : cover property (@(posedge clk) !rst && state == 3'd3 && !wr_ready);
  queue_fills : cover property (@(posedge clk) !rst && pressed);
  burst_of_32_words : cover property (@(posedge clk) !rst && put && filled == 6'd31);
  frame_ends_with_its_segment : cover property (@(posedge clk) !rst && put && eaten && words == 14'd1 && piece == want);
  frame_is_cut : cover property (@(posedge clk) !rst && state == 3'd4 && was == 3'd3);
  descriptor_is_bad : cover property (@(posedge clk) !rst && state == 3'd4 && was == 3'd0);
  frame_is_broken : cover property (@(posedge clk) !rst && put && ended && broken);
  buffers_are_left_over : cover property (@(posedge clk) !rst && state == 3'd5 && seg_valid && !seg_last);
  left_over_buffer_is_bad : cover property (@(posedge clk) !rst && state == 3'd5 && seg_valid && seg_bad);
  for (genvar start = 0; start < 8; start++) begin : g_start
    for (genvar length = 0; length < 8; length++) begin : g_length
      // Of a frame that fits its first buffer.
      misaligned : cover property (@(posedge clk) !rst && done_valid && seg_addr[2:0] == 3'(start) && done_bytes[2:0] == 3'(length)
          && done_bytes <= seg_bytes);
    end
  end
endmodule
bind dma_receive dma_receive_points u_points (.*);
