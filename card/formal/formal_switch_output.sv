// switch_output, for any traffic: a word is given on as it came and taken only when it is given;
// frames stay whole; a waiting input sees at most one frame of each other go first.
module formal_switch_output (
    input logic clk,
    input logic rst,
    input logic [3:0] s_valid,
    input logic [4*71-1:0] s_word,
    input logic m_ready,
    input logic [1:0] me // whose wait is counted
);
  logic [3:0] s_ready;
  logic m_valid;
  logic [70:0] m_word;
  logic [1:0] m_src;
  switch_output dut (.clk, .rst, .s_valid, .s_ready, .s_word, .m_valid, .m_ready, .m_word, .m_src);

  logic begun = 1'b0;
  logic [3:0] in_waits, in_open;
  logic [4*71-1:0] was_in;
  logic [70:0] was_out;
  logic [1:0] me_was, was_src, owner;
  logic out_waits, out_open;
  logic [2:0] before; // frames of others that ended while mine waits to begin
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    me_was <= me;
    was_in <= s_word;
    was_out <= m_word;
    was_src <= m_src;
    in_waits <= rst ? '0 : s_valid & ~s_ready;
    out_waits <= !rst && m_valid && !m_ready;
    for (int i = 0; i < 4; i++) begin
      if (rst) in_open[i] <= 1'b0;
      else if (s_valid[i] && s_ready[i]) in_open[i] <= !s_word[71*i + 65];
    end
    if (rst) out_open <= 1'b0;
    else if (m_valid && m_ready) begin
      out_open <= !m_word[65];
      owner <= m_src;
    end
    if (rst || !s_valid[me] || s_ready[me]) before <= '0;
    else if (m_valid && m_ready && m_word[65]) before <= before + 1'b1;
  end

  always_comb begin
    assume (begun || rst);
    if (begun) assume (me == me_was);
    if (begun && !rst) begin
      for (int i = 0; i < 4; i++) begin
        if (in_waits[i]) assume (s_valid[i] && s_word[71*i +: 71] == was_in[71*i +: 71]);
        if (s_valid[i]) assume (s_word[71*i + 64] == !in_open[i]);
      end
      if (m_valid) begin
        gives_a_word_that_is_offered : assert (s_valid[m_src] && m_word == s_word[71*m_src +: 71]);
        frames_are_whole : assert (m_word[64] == !out_open);
        if (out_open) no_frame_inside_another : assert (m_src == owner);
      end
      takes_what_it_gives_and_no_more : assert ((s_ready & s_valid) == (m_valid && m_ready ? 4'd1 << m_src : 4'd0));
      if (out_waits) offer_stands : assert (m_valid && m_word == was_out && m_src == was_src);
      if (|s_valid && !out_open) never_idles_while_one_waits : assert (m_valid);
      waits_for_one_frame_of_each_other : assert (before <= 3'd3);
    end
  end
endmodule
