// frame_crossing with two clocks whose edges come in any order: kept words come out once, in order
// and unchanged, dropped ones never; a frame comes out only when it is whole, and then without a
// pause. One word, chosen by the solver among all that ever go in, is followed by its place.
module formal_frame_crossing (
    input logic s_clk,
    input logic m_clk,
    input logic s_valid,
    input logic [WIDTH-1:0] s_word,
    input logic s_eof,
    input logic judge_now,
    input logic keep_it,
    input logic m_ready,
    input logic choose // follow the word that goes in now
);
  localparam int WIDTH = 1, DEPTH_LOG2 = 2, MOST = (1 << DEPTH_LOG2) + 2, COUNT = 4;
  // It begins as a reset leaves it, with all registers 0 (`zinit` in the .sby file); count_crossing
  // has the reset itself.
  logic s_rst, m_rst;
  assign s_rst = 1'b0;
  assign m_rst = 1'b0;

  logic s_ready, whole, overflow, judge, keep, m_valid, m_sof, m_eof;
  logic [WIDTH-1:0] m_word;
  assign judge = whole && judge_now;
  assign keep = keep_it && !overflow;
  frame_crossing #(.WIDTH(WIDTH), .DEPTH_LOG2(DEPTH_LOG2)) dut (
      .s_clk, .s_rst, .s_valid, .s_ready, .s_word, .s_eof, .whole, .overflow, .judge, .keep,
      .m_clk, .m_rst, .m_valid, .m_ready, .m_word, .m_sof, .m_eof);

  // Counts of words: of kept frames, of the frame that comes in, and of what has come out.
  logic [COUNT-1:0] kept, pending, got, place, under_way;
  logic chosen, is_kept, is_gone, done, put, take;
  logic [WIDTH-1:0] word;
  logic is_first, is_last;
  assign put = s_valid && s_ready;
  assign take = m_valid && m_ready;
  assign under_way = kept - got;
  always_ff @(posedge s_clk) begin
    if (s_rst) begin
      {kept, pending} <= '0;
      {chosen, is_kept, is_gone} <= '0;
    end else begin
      if (judge) begin
        if (keep) kept <= kept + pending;
        pending <= '0;
        if (chosen && !is_kept && !is_gone) {is_kept, is_gone} <= {keep, !keep};
      end else if (put) begin
        pending <= pending + 1'b1;
        if (choose && !chosen) begin
          chosen <= 1'b1;
          place <= kept + pending;
          {word, is_first, is_last} <= {s_word, pending == '0, s_eof};
        end
      end
    end
  end
  // What a frame's words wait for at the output.
  logic open, waited, stood;
  logic [WIDTH+1:0] stood_at;
  always_ff @(posedge m_clk) begin
    if (m_rst) begin
      got <= '0;
      {done, open, waited, stood} <= '0;
    end else begin
      got <= got + {3'b0, take};
      if (take && is_kept && got == place) done <= 1'b1;
      if (take) open <= !m_eof;
      waited <= open && !m_valid;
      stood <= m_valid && !m_ready;
      stood_at <= {m_word, m_sof, m_eof};
    end
  end

  // The state inside (connected in the .sby file), which the solver needs to know from any state
  // on: the words from `rd` to the end of the kept frames, and from there to `wr`.
  localparam int BITS = DEPTH_LOG2 + 1, WORDS = 1 << DEPTH_LOG2;
  logic [WIDTH:0] dut_mem0, dut_mem1, dut_mem2, dut_mem3;
  logic [(WIDTH+1)*WORDS-1:0] dut_mem;
  assign dut_mem = {dut_mem3, dut_mem2, dut_mem1, dut_mem0};
  logic [WIDTH:0] dut_q;
  logic dut_q_valid, dut_begun, dut_full;
  logic [BITS-1:0] dut_taken, dut_rd, dut_rd_seen, dut_wr, dut_kept, dut_frames, dut_frames_seen;
  logic [BITS-1:0] stored, incoming, unread, ends, new_ends, followed_at;
  logic [WORDS-1:0] last; // by place in the memory
  logic last_kept, last_in;
  logic [COUNT-1:0] ahead; // of the followed word, from what is read next
  assign stored = dut_kept - dut_rd;
  assign incoming = dut_wr - dut_kept;
  assign unread = dut_wr - dut_rd;
  assign ahead = place - got - COUNT'(m_valid) - COUNT'(dut_q_valid);
  assign followed_at = dut_rd + ahead[BITS-1:0];
  always_comb begin
    for (int n = 0; n < WORDS; n++) last[n] = dut_mem[(WIDTH+1)*n+WIDTH];
    ends = '0;
    new_ends = '0;
    for (int n = 0; n < WORDS; n++) begin
      if (BITS'(n) < stored) ends = ends + {2'b0, last[DEPTH_LOG2'(dut_rd + BITS'(n))]};
      if (BITS'(n) < incoming) new_ends = new_ends + {2'b0, last[DEPTH_LOG2'(dut_kept + BITS'(n))]};
    end
    last_kept = last[DEPTH_LOG2'(dut_kept - 1'b1)];
    last_in = last[DEPTH_LOG2'(dut_wr - 1'b1)];
  end
  logic is_in, before; // the followed word is in the memory; the word before it was its frame's last
  assign is_in = chosen && !is_gone && !done && (is_kept || !overflow) && ahead < COUNT'(unread);
  assign before = ahead != '0 ? last[DEPTH_LOG2'(followed_at - 1'b1)] : dut_q_valid ? dut_q[WIDTH] : !dut_begun;

  always_comb begin
    begin
      writer_knows_of_room : assert (dut_wr - dut_rd_seen <= BITS'(WORDS) && dut_rd - dut_rd_seen <= dut_wr - dut_rd_seen);
      if (dut_wr - dut_rd_seen == BITS'(WORDS)) says_when_it_is_full : assert (dut_full);
      kept_is_within : assert (stored <= unread && dut_kept - dut_rd_seen <= dut_wr - dut_rd_seen);
      if (!overflow) incoming_is_counted : assert (COUNT'(incoming) == pending);
      frame_ends_once : assert (overflow || new_ends == {2'b0, whole});
      if (whole && !overflow) ends_at_the_end : assert (incoming != '0 && last_in);
      kept_frames_end_once : assert (ends == dut_frames - dut_taken - {2'b0, dut_q_valid && dut_q[WIDTH]});
      if (stored != '0) kept_ends_with_a_frame : assert (last_kept);
      frames_are_seen_late : assert (dut_frames_seen - dut_taken <= dut_frames - dut_taken);
      if (dut_begun || dut_q_valid) is_of_a_frame_that_was_seen : assert (dut_frames_seen != dut_taken);
      words_are_counted : assert (under_way == COUNT'(stored) + COUNT'(dut_q_valid) + COUNT'(m_valid));
      if (m_valid) begun_is_the_frame_at_the_output : assert (dut_begun == !m_eof);
      if (!m_valid) begun_is_the_frame_that_waits : assert (dut_begun == open);
      if (open && !m_valid) the_next_is_read : assert (dut_q_valid);
      one_fate : assert (chosen ? !(is_kept && is_gone) : !is_kept && !is_gone && !done);
      if (chosen && !is_kept && !is_gone) followed_comes_in : assert (place - kept < pending || overflow);
      if (is_in) followed_is_in_its_place : assert (dut_mem[(WIDTH+1)*followed_at[DEPTH_LOG2-1:0] +: WIDTH+1] == {is_last, word} && before == is_first);
      if (is_kept && !done && dut_q_valid && ahead == '1)
        followed_is_read : assert (dut_q == {is_last, word} && dut_begun == !is_first);
      if (is_kept && !done && m_valid && got == place)
        comes_out_as_it_went_in : assert (m_word == word && m_sof == is_first && m_eof == is_last);
      if (is_kept && !done) none_is_lost : assert (place - got < under_way);
      if (m_valid) only_what_was_kept_comes_out : assert (under_way != '0);
      holds_no_more_than_it_can : assert (under_way <= COUNT'(MOST));
      if (open && !m_valid) a_frame_comes_without_a_pause : assert (!waited);
      if (stood) offer_stands : assert (m_valid && {m_word, m_sof, m_eof} == stood_at);
    end
  end
endmodule
