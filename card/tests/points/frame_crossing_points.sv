// What the two clocks of a crossing must have met: frames of every kind, a full memory, and words
// that wait on either side.
module frame_crossing_points #(
    parameter int DEPTH_LOG2 = 11
) (
    input logic s_clk, s_rst, s_valid, s_ready, s_eof, whole, overflow, judge, keep, m_clk, m_rst, m_valid, m_ready, m_sof, m_eof,
    input logic store, fetch, q_valid,
    input logic [DEPTH_LOG2:0] rd, rd_seen, frames_seen, taken
);
  frame_is_kept : cover property (@(posedge s_clk) !s_rst && judge && keep);
  frame_is_dropped : cover property (@(posedge s_clk) !s_rst && judge && !keep && !overflow);
  frame_without_room : cover property (@(posedge s_clk) !s_rst && judge && overflow);
  word_is_stored_while_another_is_read : cover property (@(posedge s_clk) !s_rst && store && fetch);
  reading_is_seen_late : cover property (@(posedge s_clk) !s_rst && rd != rd_seen);
  reading_is_seen_several_words_at_once : cover property (@(posedge s_clk) !s_rst && rd - rd_seen > (DEPTH_LOG2 + 1)'(1));
  read_count_wraps : cover property (@(posedge m_clk) !m_rst && fetch && rd == '1);
  frames_wait : cover property (@(posedge m_clk) !m_rst && frames_seen - taken > (DEPTH_LOG2 + 1)'(1));
  runs_empty : cover property (@(posedge m_clk) !m_rst && m_valid && m_ready && m_eof && !q_valid && frames_seen == taken);
  stall_at_the_output : cover property (@(posedge m_clk) !m_rst && m_valid && !m_ready && q_valid);
  frame_of_one_word : cover property (@(posedge m_clk) !m_rst && m_valid && m_ready && m_sof && m_eof);
endmodule
bind frame_crossing frame_crossing_points #(.DEPTH_LOG2(DEPTH_LOG2)) u_points (.*);
