// dma_transmit: the bytes of each segment are read once, in order, in bursts that stay within the
// buffer and cross no line of 256 bytes; each descriptor is reported once, when all its bytes have
// been read or it is bad; a request is made only when the queue has room. What u_segments gives is
// proved in formal_dma_segments.sv and followed here as it is given. No buffer of the host wraps
// the address.
module formal_dma_transmit (
    input logic clk,
    input logic rst,
    input logic on,
    input logic [31:0] base,
    input logic [15:0] mask,
    input logic [15:0] tail,
    input logic req_ready,
    input logic rd_valid,
    input logic [63:0] rd_data,
    input logic m_ready,
    input logic done_ready
);
  localparam int DEPTH_LOG2 = 6;
  logic [15:0] head;
  logic req_valid, rd_ready, m_valid, m_sof, m_eof, m_err, pressed, done_valid, done_bad;
  logic [31:0] req_addr, done_cookie, frames;
  logic [5:0] req_words;
  logic [63:0] m_data;
  logic [3:0] m_bytes;
  logic [1:0] m_dest;
  dma_transmit #(.DEPTH_LOG2(DEPTH_LOG2)) dut (.clk, .rst, .on, .base, .mask, .tail, .head, .req_valid, .req_ready, .req_addr,
      .req_words, .rd_valid, .rd_ready, .rd_data, .m_valid, .m_ready, .m_data, .m_sof, .m_eof, .m_bytes, .m_err, .m_dest, .pressed,
      .done_valid, .done_ready, .done_cookie, .done_bad, .frames);

  // The module's own state, connected by the .sby.
  localparam logic [2:0] SEGMENT = 0, ASK = 1, WORDS = 2, DONE = 3, BAD = 4;
  (* keep *) logic [2:0] dut_state;
  (* keep *) logic [31:0] seg_addr, seg_cookie;
  (* keep *) logic [28:0] dut_word;
  (* keep *) logic [13:0] dut_words;
  (* keep *) logic [2:0] dut_offset;
  (* keep *) logic [3:0] dut_piece, dut_tail_bytes;
  (* keep *) logic [15:0] seg_bytes;
  (* keep *) logic [5:0] dut_burst_left;
  (* keep *) logic seg_valid, seg_ready, seg_last, seg_bad, walking;
  (* keep *) logic [DEPTH_LOG2:0] level, queue_rd, queue_fetched;
  (* keep *) logic queue_q_valid;

  // The next byte's address, and the bytes that the segment still has, as the counts of words say.
  logic [31:0] dut_addr;
  logic [16:0] dut_left;
  assign dut_addr = {dut_word, dut_offset};
  assign dut_left = {13'b0, dut_piece} + (dut_words <= 14'd1 ? 17'd0 : {dut_words - 14'd2, 3'b0} + {13'b0, dut_tail_bytes});

  // The segment at hand: how many of its words were asked for and came.
  logic begun = 1'b0;
  logic taken;
  logic [32:0] first, past; // the segment's words, and the word after them
  logic [32:0] at;          // the next one to be read
  logic [5:0] due;          // words of the burst that are still to come
  logic was_asked, was_seg, data_request, data_word;
  logic [37:0] was_request;
  logic [82:0] seg, seg_was;
  assign seg = {seg_addr, seg_cookie, seg_bytes, seg_last, seg_bad, 1'b0};
  assign first = {1'b0, seg_addr[31:3], 3'b0};
  assign past = {1'b0, seg_addr} + {17'b0, seg_bytes} + 33'd7 & ~33'd7;
  assign data_request = req_valid && !walking;
  assign data_word = rd_valid && rd_ready && !walking;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_asked <= !rst && req_valid && !req_ready;
    was_request <= {req_addr, req_words};
    was_seg <= !rst && seg_valid && !seg_ready;
    seg_was <= seg;
    if (rst) begin
      taken <= 1'b0;
      due <= '0;
    end else begin
      if (seg_valid && !taken && dut_state != SEGMENT) taken <= 1'b1;
      if (data_request && req_ready) due <= req_words;
      if (data_word) begin
        due <= due - 1'b1;
        at <= at + 33'd8;
      end
      if (dut_state == SEGMENT) at <= first;
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (seg_valid) assume ({1'b0, seg_addr} + {17'b0, seg_bytes} <= 33'h1_0000_0000);
      // formal_dma_segments.sv has these.
      if (seg_valid) assume (seg_bad ? seg_last : seg_bytes != '0);
      if (was_seg) assume (seg_valid && seg == seg_was);
      if (rd_valid && !walking) assume (due != '0);

      if (data_request) begin
        request_is_of_words : assert (req_addr[2:0] == '0 && req_words >= 6'd1 && req_words <= 6'd32);
        burst_crosses_no_line : assert ({4'b0, req_addr[7:3]} + {3'b0, req_words} <= 9'd32);
        burst_goes_on_where_the_last_ended : assert ({1'b0, req_addr} == at);
        burst_stays_in_the_buffer : assert ({1'b0, req_addr} >= first && {1'b0, req_addr} + {24'b0, req_words, 3'b0} <= past);
        asks_only_with_room : assert (level <= (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) - 36));
        asks_for_a_segment_that_is_good : assert (seg_valid && !seg_bad && due == '0);
      end
      if (was_asked && dut_state == ASK) request_stands_unless_room_ends : assert ({req_addr, req_words} == was_request);
      if (done_valid) reports_a_descriptor_that_is_read : assert (seg_valid && seg_last && (seg_bad || at == past) && due == '0);
      if (done_valid) reports_what_it_is : assert (done_cookie == seg_cookie && done_bad == seg_bad);
      if (seg_valid && seg_ready && seg_last) last_segment_goes_with_its_report : assert (done_valid && done_ready);
      if (done_valid && done_ready) reports_once : assert (seg_ready);
      if (seg_valid && seg_ready && !seg_last) segment_goes_when_it_is_read : assert (data_word && at + 33'd8 == past);
      if (data_word) reads_no_word_beyond : assert (at < past && at >= first);

      queue_is_kept : assert (queue_fetched == queue_rd + {{DEPTH_LOG2{1'b0}}, queue_q_valid} && level <= (DEPTH_LOG2 + 1)'(1 << DEPTH_LOG2)
          && level >= {{DEPTH_LOG2{1'b0}}, queue_q_valid});
      state_is_possible : assert (dut_state <= BAD);
      if (dut_state != SEGMENT) has_a_segment : assert (seg_valid);
      if (dut_state == ASK || dut_state == WORDS) place_is_kept : assert (!seg_bad && dut_words != '0 && dut_words <= 14'd8193
          && at == {1'b0, dut_word, 3'b0} && {1'b0, dut_addr} + {16'b0, dut_left} == {1'b0, seg_addr} + {17'b0, seg_bytes}
          && dut_addr >= seg_addr);
      if (dut_state == ASK || dut_state == WORDS) pieces_are_kept : assert (dut_piece != '0 && dut_tail_bytes != '0 && dut_tail_bytes <= 4'd8
          && (dut_words == 14'd1 ? dut_piece <= 4'd8 - {1'b0, dut_offset} : dut_piece == 4'd8 - {1'b0, dut_offset}));
      if (dut_state == WORDS) burst_is_kept : assert (due == dut_burst_left && due != '0 && at + {24'b0, due, 3'b0} <= past);
      if (dut_state != WORDS) no_burst_is_open : assert (due == '0);
      if (dut_state == BAD) bad_is_kept : assert (seg_bad);
      if (dut_state == DONE) end_is_kept : assert (seg_last && (seg_bad || at == past));
    end
  end
endmodule
