// Which packets the tests of fragments must have met.
module fragment_points (
    input logic clk,
    input logic rst,
    input logic [15:0] mtu, ethertype, total, flags,
    input logic [319:0] head,
    input logic s_valid, s_ready, s_eof, s_err, m_valid, m_ready, m_eof, m_err, m_to_mac,
    input logic is_long, cut, last, ended, err, meets, joins,
    input logic [2:0] state, ending,
    input logic [3:0] s_bytes, bytes
);
  localparam logic [2:0] DECIDE = 1, HEAD = 4, BODY = 5;
  logic judged, longer, given, taken;
  assign judged = !rst && state == DECIDE;
  assign longer = judged && mtu != '0 && !ended && total > mtu;
  assign given = !rst && m_valid && m_ready;
  assign taken = given && state == BODY;
  is_cut : cover property (@(posedge clk) judged && is_long);
  fragment_in_the_middle_is_cut : cover property (@(posedge clk) judged && is_long && flags[13] && flags[12:0] != '0);
  last_fragment_is_cut : cover property (@(posedge clk) judged && is_long && !flags[13] && flags[12:0] != '0);
  may_not_be_cut : cover property (@(posedge clk) longer && m_to_mac && ethertype == 16'h0800 && flags[14]);
  has_options : cover property (@(posedge clk) longer && m_to_mac && ethertype == 16'h0800 && head[14*8 +: 8] == 8'h47);
  other_type : cover property (@(posedge clk) longer && m_to_mac && ethertype != 16'h0800);
  to_the_host : cover property (@(posedge clk) longer && !m_to_mac && ethertype == 16'h0800);
  just_fits : cover property (@(posedge clk) judged && !ended && ethertype == 16'h0800 && m_to_mac && total == mtu);
  no_mtu : cover property (@(posedge clk) judged && mtu == '0 && !ended && total > 16'd1500);
  for (genvar n = 0; n < 5; n++) begin : g_words
    ends_within_the_header : cover property (@(posedge clk) judged && ended && ending == 3'(n));
  end
  for (genvar n = 1; n <= 8; n++) begin : g_bytes
    last_word_of_the_last : cover property (@(posedge clk) taken && cut && last && s_eof && s_bytes == 4'(n));
  end
  for (genvar n = 3; n <= 8; n++) begin : g_joined
    last_has_up_to_six_bytes : cover property (@(posedge clk) given && state == HEAD && cut && last && m_eof && bytes == 4'(n));
  end
  joined : cover property (@(posedge clk) taken && joins && !s_eof);
  ends_where_a_fragment_would : cover property (@(posedge clk) taken && meets && !joins);
  ends_within_a_fragment : cover property (@(posedge clk) taken && cut && !last && !meets && s_eof);
  ends_behind_a_fragment_s_first_bytes : cover property (@(posedge clk) given && state == HEAD && cut && !last && m_eof && m_err);
  broken_and_cut : cover property (@(posedge clk) taken && cut && last && s_eof && s_err);
  broken_and_short : cover property (@(posedge clk) given && state == HEAD && !cut && m_eof && err);
  header_waits : cover property (@(posedge clk) !rst && state == HEAD && m_valid && !m_ready);
  body_waits : cover property (@(posedge clk) !rst && state == BODY && s_valid && !s_ready);
  gap_in_the_body : cover property (@(posedge clk) !rst && state == BODY && !s_valid);
endmodule
bind fragment fragment_points u_points (.*);
