// Which broken framing, gaps and stalls the tests must have met.
module frame_guard_points (
    input logic clk,
    input logic rst,
    input logic s_valid, s_ready, s_sof, s_eof, s_err, m_valid, m_ready, open, held, unframed, cut,
    input logic [3:0] s_bytes
);
  logic put;
  assign put = s_valid && s_ready;
  word_outside_a_frame : cover property (@(posedge clk) !rst && put && unframed);
  frame_cut_off : cover property (@(posedge clk) !rst && put && cut);
  frame_cut_off_by_one_of_one_word : cover property (@(posedge clk) !rst && put && cut && s_eof);
  frame_of_one_word : cover property (@(posedge clk) !rst && put && s_sof && s_eof);
  frame_ends_broken : cover property (@(posedge clk) !rst && put && s_eof && s_err);
  short_word_inside : cover property (@(posedge clk) !rst && put && !unframed && !s_eof && s_bytes != 4'd8);
  impossible_bytes : cover property (@(posedge clk) !rst && put && !unframed && s_eof && (s_bytes == '0 || s_bytes > 4'd8));
  gap_within_a_frame : cover property (@(posedge clk) !rst && open && held && !s_valid);
  stall_within_a_frame : cover property (@(posedge clk) !rst && open && m_valid && !m_ready);
endmodule
bind frame_guard frame_guard_points u_points (.*);
