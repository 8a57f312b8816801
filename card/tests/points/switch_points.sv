// Which ways and crowds the tests of the switch must have met.
module switch_points (
    input logic clk,
    input logic rst,
    input logic [3:0] s_valid, s_ready, s_sof, s_eof, m_valid, m_ready,
    input logic [7:0] s_dest
);
  for (genvar from = 0; from < 4; from++) begin : g_from
    gap_within_a_frame : cover property (@(posedge clk) !rst && !s_valid[from]);
    waits : cover property (@(posedge clk) !rst && s_valid[from] && !s_ready[from]);
    for (genvar to = 0; to < 4; to++) begin : g_to
      way : cover property (@(posedge clk) !rst && s_valid[from] && s_ready[from] && s_sof[from] && s_dest[2*from +: 2] == 2'(to));
    end
  end
  for (genvar to = 0; to < 4; to++) begin : g_out
    stalled : cover property (@(posedge clk) !rst && m_valid[to] && !m_ready[to]);
    all_want_it : cover property (@(posedge clk) !rst && s_valid == 4'hf && s_dest == {4{2'(to)}});
  end
  all_move : cover property (@(posedge clk) !rst && (s_valid & s_ready) == 4'hf);
  frame_of_one_word : cover property (@(posedge clk) !rst && |(s_valid & s_ready & s_sof & s_eof));
endmodule
bind switch switch_points u_points (.*);
