// dma_receive: a burst is written at most once to each word, in order, within the segment's buffer,
// and crosses no line of 256 bytes; no byte beside the buffer is strobed; each descriptor is
// reported once, with as many bytes as were put into its buffers; the burst is asked for when it is
// whole. What u_segments gives is proved in formal_dma_segments.sv and followed here as it is
// given; what the queue and u_cut give is free within their own rules. No buffer of the host wraps
// the address. That a word comes out of `burst` as it was put in is the memory's part.
module formal_dma_receive (
    input logic clk,
    input logic rst,
    input logic on,
    input logic [31:0] base,
    input logic [15:0] mask,
    input logic [15:0] tail,
    input logic req_ready,
    input logic rd_valid,
    input logic [63:0] rd_data,
    input logic wr_ready,
    input logic s_valid,
    input logic [63:0] s_data,
    input logic s_eof,
    input logic [3:0] s_bytes,
    input logic s_err,
    input logic done_ready
);
  localparam int DEPTH_LOG2 = 2;
  logic [15:0] head, done_bytes;
  logic req_valid, req_write, rd_ready, wr_valid, s_ready, pressed, done_valid, done_bad;
  logic [31:0] req_addr, done_cookie, frames;
  logic [5:0] req_words;
  logic [63:0] wr_data, done_status;
  logic [7:0] wr_strb;
  dma_receive #(.DEPTH_LOG2(DEPTH_LOG2)) dut (.clk, .rst, .on, .base, .mask, .tail, .head, .req_valid, .req_ready, .req_write, .req_addr,
      .req_words, .rd_valid, .rd_ready, .rd_data, .wr_valid, .wr_ready, .wr_data, .wr_strb, .s_valid, .s_ready, .s_data, .s_eof,
      .s_bytes, .s_err, .pressed, .done_valid, .done_ready, .done_cookie, .done_bytes, .done_bad, .done_status, .frames);

  // The module's own state, connected by the .sby.
  localparam logic [2:0] SEGMENT = 0, FILL = 1, ASK = 2, WORDS = 3, CUT = 4, SKIP = 5, DONE = 6;
  (* keep *) logic [2:0] dut_state;
  (* keep *) logic [31:0] seg_addr, seg_cookie;
  (* keep *) logic [28:0] dut_word, dut_start_word;
  (* keep *) logic [13:0] dut_words;
  (* keep *) logic [2:0] dut_offset;
  (* keep *) logic [3:0] dut_most, dut_tail_bytes, dut_moved;
  (* keep *) logic [15:0] seg_bytes;
  (* keep *) logic [5:0] dut_filled, dut_sent;
  (* keep *) logic [4:0] avail;
  (* keep *) logic [3:0] piece, want, q_bytes;
  (* keep *) logic [7:0] strobe;
  (* keep *) logic seg_valid, seg_ready, seg_last, seg_bad, fill, go, ended, all_in;

  // The next byte's address, and the bytes that the segment still has, as the counts of words say.
  logic [31:0] dut_addr, dut_start;
  logic [16:0] dut_left;
  assign dut_addr = {dut_word, dut_offset};
  assign dut_start = {dut_start_word, 3'b0};
  assign dut_left = dut_words == '0 ? 17'd0
      : {13'b0, dut_most} + (dut_words == 14'd1 ? 17'd0 : {dut_words - 14'd2, 3'b0} + {13'b0, dut_tail_bytes});

  logic begun = 1'b0;
  logic [32:0] first, past, at; // the segment's words, the word after them, the next one to be written
  logic [5:0] due;
  logic [15:0] bytes;           // put into this descriptor's buffers
  logic put, wrote, burst_request, was_seg, was_cut;
  logic [82:0] seg, seg_was;
  assign seg = {seg_addr, seg_cookie, seg_bytes, seg_last, seg_bad, 1'b0};
  assign first = {1'b0, seg_addr[31:3], 3'b0};
  assign past = {1'b0, seg_addr} + {17'b0, seg_bytes} + 33'd7 & ~33'd7;
  assign put = fill;
  assign wrote = wr_valid && wr_ready;
  assign burst_request = req_valid && req_write;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_seg <= !rst && seg_valid && !seg_ready;
    seg_was <= seg;
    if (rst) begin
      due <= '0;
      bytes <= '0;
      was_cut <= 1'b0;
    end else begin
      if (dut_state == CUT) was_cut <= 1'b1;
      else if (dut_state == SEGMENT) was_cut <= 1'b0;
      if (burst_request && req_ready) due <= req_words;
      if (wrote) begin
        due <= due - 1'b1;
        at <= at + 33'd8;
      end
      if (dut_state == SEGMENT) at <= first;
      if (put) bytes <= bytes + {12'b0, piece};
      if (done_valid && done_ready) bytes <= '0;
    end
  end
  // Bytes of the word at `dut_addr` that lie in the segment, from where the last piece ended.
  logic [7:0] may;
  always_comb begin
    for (int lane = 0; lane < 8; lane++) begin
      may[lane] = 4'(lane) >= {1'b0, dut_addr[2:0]} && {1'b0, dut_addr[31:3], 3'(lane)} < {1'b0, seg_addr} + {17'b0, seg_bytes};
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (seg_valid) assume ({1'b0, seg_addr} + {17'b0, seg_bytes} <= 33'h1_0000_0000);
      // formal_dma_segments.sv has these.
      if (seg_valid) assume (seg_bad ? seg_last : seg_bytes != '0);
      if (was_seg) assume (seg_valid && seg == seg_was);
      // frame_guard gives words of 1 to 8 bytes; a frame is shorter than 64 KiB.
      assume (q_bytes >= 4'd1 && q_bytes <= 4'd8); // as they come out of the queue
      assume (bytes <= 16'hfff0);

      if (burst_request) begin
        request_is_of_words : assert (req_addr[2:0] == '0 && req_words >= 6'd1 && req_words <= 6'd32);
        burst_crosses_no_line : assert ({4'b0, req_addr[7:3]} + {3'b0, req_words} <= 9'd32);
        burst_goes_on_where_the_last_ended : assert ({1'b0, req_addr} == at);
        burst_stays_in_the_buffer : assert ({1'b0, req_addr} >= first && {1'b0, req_addr} + {24'b0, req_words, 3'b0} <= past);
        asks_for_a_segment_that_is_good : assert (seg_valid && !seg_bad && due == '0);
      end
      if (put) strobes_no_byte_beside_the_buffer : assert ((strobe & ~may) == '0 && dut_addr >= seg_addr);
      if (put) strobes_each_byte_of_the_piece : assert (strobe == 8'(~(9'h1ff << piece) << dut_addr[2:0]) && piece <= 4'd8 - {1'b0, dut_addr[2:0]});
      if (put && !all_in) puts_something : assert (piece != '0);
      if (put) puts_no_more_than_there_is : assert ({13'b0, piece} <= dut_left && {1'b0, piece} <= avail);
      takes_no_more_than_there_is : assert (!go || {1'b0, want} <= avail || ended);
      if (wr_valid) writes_within_the_burst : assert (due != '0 && at < past);
      if (wr_valid) burst_is_whole : assert (dut_state == WORDS);
      if (done_valid) reports_a_descriptor : assert (seg_valid && seg_last && due == '0);
      if (done_valid) reports_what_it_is : assert (done_cookie == seg_cookie && done_bytes == bytes);
      // Of a table whose bad entry was not needed the frame is whole, and good.
      if (done_valid && was_cut) reports_what_was_cut : assert (done_bad);
      if (seg_valid && seg_ready && seg_last) last_segment_goes_with_its_report : assert (done_valid && done_ready);
      if (done_valid && done_ready) reports_once : assert (seg_ready);

      state_is_possible : assert (dut_state <= DONE);
      bytes_are_kept : assert (done_bytes + {12'b0, dut_moved} == bytes && avail <= 5'd24);
      if (dut_state != FILL && dut_state != ASK) bytes_have_moved : assert (dut_moved == '0);
      if ((dut_state == FILL || dut_state == ASK || dut_state == WORDS) && dut_words != '0) pieces_are_kept : assert (dut_words <= 14'd8193
          && dut_most != '0 && dut_tail_bytes != '0 && dut_tail_bytes <= 4'd8
          && (dut_words == 14'd1 ? dut_most <= 4'd8 - {1'b0, dut_offset} : dut_most == 4'd8 - {1'b0, dut_offset}));
      if (dut_state != SEGMENT && dut_state != SKIP) has_a_segment : assert (seg_valid);
      if (dut_state == DONE) at_its_end : assert (seg_last);
      if (dut_state == CUT || was_cut && dut_state == DONE) cut_at_its_end : assert (seg_last && done_bad);
      if (dut_state == FILL || dut_state == ASK || dut_state == WORDS || dut_state == SKIP) not_cut_yet : assert (!was_cut);
      if (dut_state == FILL || dut_state == ASK || dut_state == WORDS) place_is_kept : assert (!seg_bad && (dut_left == '0
          || (dut_addr >= seg_addr && {1'b0, dut_addr} + {16'b0, dut_left} == {1'b0, seg_addr} + {17'b0, seg_bytes})));
      if (dut_state == FILL) filling_is_kept : assert (dut_left != '0 && due == '0 && !all_in && {1'b0, dut_start} == at && dut_filled < 6'd32
          && at + {24'b0, dut_filled, 3'b0} == {1'b0, dut_addr[31:3], 3'b0}
          && (dut_filled == '0 || dut_addr[2:0] == '0) && {4'b0, at[7:3]} + {3'b0, dut_filled} < 9'd32 && at >= first);
      if (dut_state == ASK) burst_is_kept : assert (due == '0 && dut_filled != '0 && dut_filled <= 6'd32 && at >= first
          && at + {24'b0, dut_filled, 3'b0} <= past && {4'b0, at[7:3]} + {3'b0, dut_filled} <= 9'd32 && {1'b0, req_addr} == at);
      if (dut_state == WORDS) writing_is_kept : assert (due == dut_filled - dut_sent && due != '0 && dut_filled <= 6'd32
          && at + {24'b0, due, 3'b0} <= past && at >= first
          && (all_in || dut_left == '0 || (dut_addr[7:0] == '0 && at + {24'b0, due, 3'b0} == {1'b0, dut_addr})));
      if (dut_state == ASK) next_place_is_kept : assert (all_in || dut_left == '0
          || (dut_addr[7:0] == '0 && at + {24'b0, dut_filled, 3'b0} == {1'b0, dut_addr}));
      if (dut_state == SEGMENT || dut_state == SKIP || dut_state == CUT || dut_state == DONE) no_burst_is_open : assert (due == '0);
      if (dut_state == SEGMENT) nothing_is_over : assert (!all_in);
    end
  end
endmodule
