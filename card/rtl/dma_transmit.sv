// The transmit half of the DMA engine: reads the segments of each descriptor from host memory, at
// any address and of any length, and puts them together to one frame. A request never asks for more
// than the queue behind has room for, so a burst never waits for the card. Ends a frame that goes
// wrong with `err`.
module dma_transmit #(
    parameter int DEPTH_LOG2 = 7 // words of the queue
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        on,
    input  logic [31:0] base,
    input  logic [15:0] mask,
    input  logic [15:0] tail,
    output logic [15:0] head,
    output logic        req_valid,
    input  logic        req_ready,
    output logic [31:0] req_addr,
    output logic [5:0]  req_words,
    input  logic        rd_valid,
    output logic        rd_ready,
    input  logic [63:0] rd_data,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err,
    output logic [1:0]  m_dest,
    output logic        pressed, // the queue runs empty
    output logic        done_valid, // a descriptor's buffers have been read
    input  logic        done_ready,
    output logic [31:0] done_cookie,
    output logic        done_bad,
    output logic [31:0] frames
);
  localparam logic [2:0] SEGMENT = 0, ASK = 1, WORDS = 2, DONE = 3, BAD = 4;
  logic [2:0]  state;
  logic        seg_valid, seg_ready, seg_last, seg_bad, w_req_valid, w_rd_ready, walking;
  logic [31:0] w_req_addr, seg_addr;
  logic [5:0]  w_req_words;
  logic [15:0] seg_bytes;
  logic [1:0]  seg_target;
  dma_segments u_segments (
      .clk, .rst, .on, .base, .mask, .tail, .head, .req_valid(w_req_valid), .req_ready(req_ready && walking), .req_addr(w_req_addr),
      .req_words(w_req_words), .rd_valid(rd_valid && walking), .rd_ready(w_rd_ready), .rd_data, .seg_valid, .seg_ready, .seg_addr,
      .seg_bytes, .seg_last, .seg_bad, .seg_cookie(done_cookie), .seg_target);

  // ---- the segment in bursts: the first begins inside a word, none crosses 256 bytes
  logic [28:0] addr;   // of the next word
  logic [2:0]  offset; // where the segment begins in that word
  logic [13:0] words;  // of the segment, the next one among them
  logic [3:0]  piece;  // bytes of the next word
  logic [3:0]  tail_bytes; // bytes of the last word, unless it is the first
  logic [16:0] span;   // bytes from the first word's start to the segment's end
  logic [5:0]  burst, burst_left;
  logic [5:0]  to_line;
  logic        begun;  // bytes of this frame have gone
  logic        room, final_word;
  assign walking = state == SEGMENT;
  assign span = {1'b0, seg_bytes} + {14'b0, seg_addr[2:0]};
  assign to_line = 6'd32 - {1'b0, addr[4:0]};
  assign burst = words >= {8'b0, to_line} ? to_line : words[5:0];
  assign final_word = words == 14'd1;
  assign req_valid = walking ? w_req_valid : state == ASK && room;
  assign req_addr = walking ? w_req_addr : {addr, 3'b000};
  assign req_words = walking ? w_req_words : burst;
  assign rd_ready = walking ? w_rd_ready : state == WORDS && p_ready;

  // ---- a word from the bus, aligned; its register keeps the bus apart from the joiner
  logic        p_valid, p_ready, p_last, p_err, p_take;
  logic [63:0] p_data;
  logic [3:0]  p_bytes;
  assign p_ready = !p_valid || j_ready;
  assign p_take = (state == WORDS && rd_valid) || (state == BAD && begun);
  always_ff @(posedge clk) begin
    if (rst) p_valid <= 1'b0;
    else if (p_ready) p_valid <= p_take;
    if (p_ready) begin
      p_data <= rd_data >> {offset, 3'b000};
      p_bytes <= state == BAD ? 4'd0 : piece;
      p_last <= state == BAD || (seg_last && final_word);
      p_err <= state == BAD;
    end
  end

  // ---- pieces of words to one frame
  logic j_ready;
  logic q_valid, q_ready, q_sof, q_eof, q_err;
  logic [63:0] q_data;
  logic [3:0] q_bytes;
  logic [DEPTH_LOG2:0] level;
  stream_join u_join (
      .clk, .rst, .s_valid(p_valid), .s_ready(j_ready), .s_data(p_data), .s_bytes(p_bytes), .s_last(p_last), .s_err(p_err),
      .m_valid(q_valid), .m_ready(q_ready), .m_data(q_data), .m_sof(q_sof), .m_eof(q_eof), .m_bytes(q_bytes), .m_err(q_err));
  // A frame keeps its destination in the queue, as the next may go elsewhere.
  fifo #(.WIDTH(73), .DEPTH_LOG2(DEPTH_LOG2)) u_queue (
      .clk, .rst, .s_valid(q_valid), .s_ready(q_ready), .s_item({q_dest, q_err, q_bytes, q_eof, q_sof, q_data}), .m_valid, .m_ready,
      .m_item({m_dest, m_err, m_bytes, m_eof, m_sof, m_data}), .level);
  logic [1:0] q_dest;
  // For a burst, and what is on its way to the queue or came in the last clock.
  always_ff @(posedge clk) begin
    room <= level <= (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) - 38);
    pressed <= level < (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) / 4);
  end

  assign seg_ready = (state == DONE && done_ready) || (state == WORDS && rd_valid && p_ready && final_word && !seg_last);
  assign done_valid = state == DONE;
  assign done_bad = seg_bad;

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= SEGMENT;
      begun <= 1'b0;
      frames <= '0;
      q_dest <= '0;
    end else case (state)
      SEGMENT: if (seg_valid) begin
        addr <= seg_addr[31:3];
        offset <= seg_addr[2:0];
        words <= span[16:3] + {13'b0, |span[2:0]};
        piece <= span < 17'd8 ? seg_bytes[3:0] : 4'd8 - {1'b0, seg_addr[2:0]};
        tail_bytes <= span[2:0] == '0 ? 4'd8 : {1'b0, span[2:0]};
        // The last frame's final words may still be on their way to the queue when the next begins:
        // they carry its destination.
        if (begun || !(p_valid || q_valid)) begin
          q_dest <= seg_target;
          state <= seg_bad ? BAD : ASK;
        end
      end
      ASK: if (room && req_ready) begin
        burst_left <= burst;
        state <= WORDS;
      end
      WORDS: if (rd_valid && p_ready) begin
        begun <= 1'b1;
        addr <= addr + 1'b1;
        offset <= '0;
        words <= words - 1'b1;
        piece <= words == 14'd2 ? tail_bytes : 4'd8;
        burst_left <= burst_left - 1'b1;
        if (final_word) state <= seg_last ? DONE : SEGMENT;
        else if (burst_left == 6'd1) state <= ASK;
      end
      BAD: if (p_ready || !begun) state <= DONE;
      default: if (done_ready) begin
        begun <= 1'b0;
        if (!seg_bad) frames <= frames + 1'b1;
        state <= SEGMENT;
      end
    endcase
  end
endmodule
