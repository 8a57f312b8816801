// frame_guard: whatever comes in, behind it each frame is sof ... eof, each word in the order and
// as often as it came, but for words outside a frame, which are counted; a frame that was cut off,
// ends short inside or came broken ends with err. One word, chosen by the solver, is followed
// through. The data is as good as one bit: no bit's path depends on another.
module formal_frame_guard (
    input logic clk,
    input logic rst,
    input logic s_valid,
    input logic [63:0] s_data,
    input logic s_sof,
    input logic s_eof,
    input logic [3:0] s_bytes,
    input logic s_err,
    input logic m_ready
);
  logic s_ready, m_valid, m_sof, m_eof, m_err;
  logic [63:0] m_data;
  logic [3:0] m_bytes;
  logic [15:0] unframed_words, cuts;
  frame_guard dut (.clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err, .m_valid, .m_ready, .m_data, .m_sof,
      .m_eof, .m_bytes, .m_err, .unframed_words, .cuts);

  logic begun = 1'b0;
  logic [74:0] was_in, was_out, in_word, out_word;
  logic in_waits, out_waits;
  assign in_word = {4'b0, s_data, s_sof, s_eof, s_bytes, s_err};
  assign out_word = {4'b0, m_data, m_sof, m_eof, m_bytes, m_err};

  // What the input means: which words are in a frame, and what is wrong with it so far.
  logic in_open, in_short, put, got, unframed, cut;
  assign put = s_valid && s_ready;
  assign got = m_valid && m_ready;
  assign unframed = !in_open && !s_sof;
  assign cut = in_open && s_sof;
  // The one word that the guard holds back, as it came, and what its frame was.
  logic held, h_sof, h_eof, h_bad;
  logic [63:0] h_data;
  logic [3:0] h_bytes;
  logic out_open;
  logic [15:0] count_unframed, count_cuts;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    in_waits <= !rst && s_valid && !s_ready;
    out_waits <= !rst && m_valid && !m_ready;
    was_in <= in_word;
    was_out <= out_word;
    if (rst) begin
      in_open <= 1'b0;
      out_open <= 1'b0;
      held <= 1'b0;
      count_unframed <= '0;
      count_cuts <= '0;
    end else begin
      if (got) begin
        out_open <= !m_eof;
        held <= 1'b0;
      end
      if (put && unframed) count_unframed <= count_unframed + 1'b1;
      if (put && cut) count_cuts <= count_cuts + 1'b1;
      if (put && !unframed) begin
        in_open <= !s_eof;
        in_short <= (!s_sof && in_short) || s_bytes != 4'd8;
        held <= 1'b1;
        {h_data, h_sof, h_eof, h_bytes} <= {s_data, s_sof, s_eof, s_bytes};
        h_bad <= s_err || s_bytes == '0 || s_bytes > 4'd8 || (!s_sof && in_short);
      end
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (in_waits) assume (s_valid && in_word == was_in);
      if (m_valid) begin
        frames_are_whole : assert (m_sof == !out_open);
        gives_only_what_came : assert (held && m_data == h_data && m_sof == h_sof);
        full_words_inside : assert (m_eof || m_bytes == 4'd8);
        bytes_are_possible : assert (m_bytes >= 4'd1 && m_bytes <= 4'd8);
        ends_where_it_ended_or_was_cut : assert (m_eof == (h_eof || (s_valid && cut)));
        err_says_what_was_wrong : assert (m_err == (h_eof ? h_bad : s_valid && cut));
        if (m_eof && h_bytes >= 4'd1 && h_bytes <= 4'd8) last_word_keeps_its_bytes : assert (m_bytes == h_bytes);
      end
      if (held && (h_eof || s_valid)) holds_a_word_no_longer_than_it_must : assert (m_valid);
      if (put && !unframed && held) takes_no_word_over_another : assert (got);
      if (m_ready) never_stops_the_input_alone : assert (s_ready);
      if (out_waits) offer_stands : assert (m_valid && out_word == was_out);
      counts_unframed_words_and_cuts : assert (unframed_words == count_unframed && cuts == count_cuts);
    end
  end
endmodule
