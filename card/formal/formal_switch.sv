// switch: a frame goes whole from one input to the output that it names, its words in order, none
// lost or doubled, no frame inside another; an output serves its inputs by turns and never idles
// while one waits. The solver chooses a way (`from`, `to`) and one word on that way, which is
// followed by its place. A word's data, bytes and err are made of two free bits by turns: nothing
// in the switch looks at them, and each bit's path is its neighbour's.
module formal_switch #(
    parameter logic [1:0] TO = 2'd0 // the proof is run for each
) (
    input logic clk,
    input logic rst,
    input logic [3:0] s_valid,
    input logic [4*2-1:0] s_item,
    input logic [3:0] s_sof,
    input logic [3:0] s_eof,
    input logic [4*2-1:0] s_dest,
    input logic [3:0] m_ready,
    input logic [1:0] from,
    input logic choose
);
  logic [4*64-1:0] s_data;
  logic [4*4-1:0] s_bytes;
  logic [3:0] s_err;
  for (genvar i = 0; i < 4; i++) begin : g_item
    assign s_data[64*i +: 64] = {32{s_item[2*i +: 2]}};
    assign s_bytes[4*i +: 4] = {2{s_item[2*i +: 2]}};
    assign s_err[i] = s_item[2*i];
  end
  logic [3:0] s_ready, m_valid, m_sof, m_eof, m_err;
  logic [4*64-1:0] m_data;
  logic [4*4-1:0] m_bytes;
  logic [4*2-1:0] m_src;
  switch dut (.clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err, .s_dest, .m_valid, .m_ready, .m_data, .m_sof,
      .m_eof, .m_bytes, .m_err, .m_src);

  localparam int W = 71;
  localparam logic [1:0] to = TO;
  logic begun = 1'b0;
  logic [3:0] in_waits, in_open, out_waits, out_open;
  logic [3:0][W+1:0] in_word, was_in, out_word, was_out;
  logic [3:0][1:0] in_dest, owner;
  logic [1:0] from_was;
  for (genvar i = 0; i < 4; i++) begin : g_words
    assign in_word[i] = {s_dest[2*i +: 2], s_err[i], s_bytes[4*i +: 4], s_eof[i], s_sof[i], s_data[64*i +: 64]};
    assign out_word[i] = {m_src[2*i +: 2], m_err[i], m_bytes[4*i +: 4], m_eof[i], m_sof[i], m_data[64*i +: 64]};
  end

  // Words of the way inside the switch, the followed one's place, and what others were given while
  // `from` waits to begin.
  logic put, got, followed, may_take;
  logic [1:0] inside, ahead;
  logic [2:0] before;
  logic [W-1:0] word;
  assign put = s_valid[from] && s_ready[from] && s_dest[2*from +: 2] == to;
  assign got = m_valid[to] && m_ready[to] && m_src[2*to +: 2] == from;
  logic moves, ends; // a word, a frame's last word, enters for `to`
  always_comb begin
    moves = 1'b0;
    ends = 1'b0;
    for (int i = 0; i < 4; i++) begin
      if (s_valid[i] && s_ready[i] && s_dest[2*i +: 2] == to) begin
        moves = 1'b1;
        ends = s_eof[i];
      end
    end
  end

  always_ff @(posedge clk) begin
    begun <= 1'b1;
    from_was <= from;
    was_in <= in_word;
    was_out <= out_word;
    in_waits <= rst ? '0 : s_valid & ~s_ready;
    out_waits <= rst ? '0 : m_valid & ~m_ready;
    may_take <= rst || m_ready[to];
    for (int i = 0; i < 4; i++) begin
      if (rst) in_open[i] <= 1'b0;
      else if (s_valid[i] && s_ready[i]) begin
        in_open[i] <= !s_eof[i];
        in_dest[i] <= s_dest[2*i +: 2];
      end
      if (rst) out_open[i] <= 1'b0;
      else if (m_valid[i] && m_ready[i]) begin
        out_open[i] <= !m_eof[i];
        owner[i] <= m_src[2*i +: 2];
      end
    end
    if (rst) begin
      inside <= '0;
      followed <= 1'b0;
    end else begin
      inside <= inside + {1'b0, put} - {1'b0, got};
      if (put && choose && !followed) begin
        followed <= 1'b1;
        word <= in_word[from][W-1:0];
        ahead <= inside - {1'b0, got};
      end else if (followed && got) begin
        if (ahead == '0) followed <= 1'b0;
        ahead <= ahead - 1'b1;
      end
    end
    if (rst || !s_valid[from] || s_dest[2*from +: 2] != to || s_ready[from]) before <= '0;
    else if (ends) before <= before + 1'b1;
  end

  always_comb begin
    assume (begun || rst);
    if (begun) assume (from == from_was);
    if (begun && !rst) begin
      for (int i = 0; i < 4; i++) begin
        if (in_waits[i]) assume (s_valid[i] && in_word[i] == was_in[i]);
        if (s_valid[i]) assume (s_sof[i] == !in_open[i]);
        if (s_valid[i] && in_open[i]) assume (s_dest[2*i +: 2] == in_dest[i]);
      end
      if (followed && m_valid[to] && m_src[2*to +: 2] == from && ahead == '0) comes_out_as_it_went_in : assert (out_word[to][W-1:0] == word);
      if (inside == '0) nothing_comes_that_did_not_go_in : assert (!(m_valid[to] && m_src[2*to +: 2] == from));
      holds_no_more_than_two : assert (inside <= 2'd2);
      if (m_valid[to]) frames_are_whole : assert (m_sof[to] == !out_open[to]);
      if (m_valid[to] && out_open[to]) no_frame_inside_another : assert (m_src[2*to +: 2] == owner[to]);
      if (out_waits[to]) offer_stands : assert (m_valid[to] && out_word[to] == was_out[to]);
      waits_for_one_frame_of_each_other : assert (before <= 3'd3);
      // A frame of another may be open and pause; then the output waits for it.
      if (s_valid[from] && s_dest[2*from +: 2] == to && s_sof[from] && may_take && before == '0 && !(|in_open)) never_idles_while_one_waits : assert (moves);
    end
  end
endmodule
