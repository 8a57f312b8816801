// The receive half of the DMA engine: writes each frame into the segments of the next descriptor,
// at any address. A burst is collected first and asked for when it is whole, so the bus never waits
// for the card. A frame that is longer than its buffers is cut and reported as an error; buffers
// that are not needed are given back with the descriptor.
// verilator lint_off PINCONNECTEMPTY
module dma_receive #(
    parameter int DEPTH_LOG2 = 8 // words of the queue
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
    output logic        req_write,
    output logic [31:0] req_addr,
    output logic [5:0]  req_words,
    input  logic        rd_valid,
    output logic        rd_ready,
    input  logic [63:0] rd_data,
    output logic        wr_valid,
    input  logic        wr_ready,
    output logic [63:0] wr_data,
    output logic [7:0]  wr_strb,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic        pressed, // the queue fills
    output logic        done_valid,
    input  logic        done_ready,
    output logic [31:0] done_cookie,
    output logic [15:0] done_bytes,
    output logic        done_bad,
    output logic [63:0] done_status, // the frame's first 8 bytes
    output logic [31:0] frames
);
  localparam logic [2:0] SEGMENT = 0, FILL = 1, ASK = 2, WORDS = 3, CUT = 4, SKIP = 5, DONE = 6;
  logic [2:0]  state;
  logic        seg_valid, seg_ready, seg_last, seg_bad, w_req_valid, w_rd_ready, walking;
  logic [31:0] w_req_addr, seg_addr;
  logic [5:0]  w_req_words;
  logic [15:0] seg_bytes;
  dma_segments u_segments (
      .clk, .rst, .on, .base, .mask, .tail, .head, .req_valid(w_req_valid), .req_ready(req_ready && walking), .req_addr(w_req_addr),
      .req_words(w_req_words), .rd_valid, .rd_ready(w_rd_ready), .rd_data, .seg_valid, .seg_ready, .seg_addr, .seg_bytes, .seg_last,
      .seg_bad, .seg_cookie(done_cookie), .seg_target());

  // ---- frames wait here, and come out as bytes
  logic q_valid, q_ready, q_eof, q_err, ended, broken;
  logic [63:0] q_data, shown;
  logic [3:0] q_bytes, want;
  logic there, full, go;
  logic [4:0] avail;
  logic [DEPTH_LOG2:0] level;
  fifo #(.WIDTH(70), .DEPTH_LOG2(DEPTH_LOG2)) u_queue (
      .clk, .rst, .s_valid, .s_ready, .s_item({s_err, s_bytes, s_eof, s_data}), .m_valid(q_valid), .m_ready(q_ready),
      .m_item({q_err, q_bytes, q_eof, q_data}), .level);
  stream_cut u_cut (
      .clk, .rst, .s_valid(q_valid), .s_ready(q_ready), .s_data(q_data), .s_eof(q_eof), .s_bytes(q_bytes), .s_err(q_err), .head(shown),
      .avail, .ended, .err(broken), .there, .full, .want, .go);
  always_ff @(posedge clk) pressed <= level > (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) / 4 * 3);

  // ---- a burst of words for the segment
  logic [71:0] burst[0:31];
  logic [28:0] addr, start; // of the next word, and of the burst's first
  logic [2:0]  offset;      // where the segment begins in the next word
  logic [13:0] words;       // of the segment, the next one among them
  logic [3:0]  most, piece; // bytes of the next word, at the most; and what the frame still has of them
  logic [3:0]  tail_bytes;  // bytes of the last word, unless it is the first
  logic [16:0] span;        // bytes from the first word's start to the segment's end
  logic [5:0]  filled, sent;
  logic        fill, eaten, first, over, burst_whole;
  logic [7:0]  strobe;
  logic [3:0]  moved; // bytes taken in the last clock
  assign span = {1'b0, seg_bytes} + {14'b0, seg_addr[2:0]};
  assign fill = state == FILL && there;
  assign piece = full ? most : avail[3:0];
  assign strobe = ~(8'hff << piece) << offset;
  // With this piece the frame, the segment or the line of 256 bytes ends.
  assign eaten = ended && avail <= {1'b0, most};
  assign burst_whole = eaten || words == 14'd1 || addr[4:0] == '1;
  assign want = state == CUT ? 4'd8 : most;
  assign go = fill || (state == CUT && there);

  assign walking = state == SEGMENT || state == SKIP;
  assign req_valid = walking ? w_req_valid : state == ASK;
  assign req_write = !walking;
  assign req_addr = walking ? w_req_addr : {start, 3'b000};
  assign req_words = walking ? w_req_words : filled;
  assign rd_ready = w_rd_ready;
  assign wr_valid = state == WORDS;
  assign {wr_strb, wr_data} = burst[sent[4:0]];

  logic all_in, bad;
  assign seg_ready = (state == SKIP && seg_valid && !seg_last) || (state == DONE && done_ready)
      || (state == WORDS && wr_ready && sent + 6'd1 == filled && words == '0 && !seg_last && !all_in);
  assign done_valid = state == DONE;
  assign done_bad = bad;
  assign over = ended && avail <= 5'd8;

  always_ff @(posedge clk) begin
    if (state == FILL) burst[filled[4:0]] <= {strobe, shown << {offset, 3'b000}};
    moved <= fill && !rst ? piece : '0;
    if (rst) begin
      state <= SEGMENT;
      filled <= '0;
      first <= 1'b1;
      all_in <= 1'b0;
      bad <= 1'b0;
      done_bytes <= '0;
      frames <= '0;
    end else begin
      done_bytes <= done_bytes + {12'b0, moved};
      case (state)
        // A descriptor waits here for its frame: without one, there is nothing to report.
        SEGMENT: if (seg_valid && avail != '0) begin
          addr <= seg_addr[31:3];
          start <= seg_addr[31:3];
          offset <= seg_addr[2:0];
          words <= span[16:3] + {13'b0, |span[2:0]};
          most <= span < 17'd8 ? seg_bytes[3:0] : 4'd8 - {1'b0, seg_addr[2:0]};
          tail_bytes <= span[2:0] == '0 ? 4'd8 : {1'b0, span[2:0]};
          filled <= '0;
          if (seg_bad) bad <= 1'b1;
          state <= seg_bad ? CUT : FILL;
        end
        FILL: if (fill) begin
          // The first piece may be shorter than the status: what the completion needs stands in
          // `shown` whole.
          if (first) for (int i = 0; i < 8; i++) done_status[8*i +: 8] <= 5'(i) < avail ? shown[8*i +: 8] : '0;
          first <= 1'b0;
          if (ended && broken) bad <= 1'b1;
          addr <= addr + 1'b1;
          offset <= '0;
          words <= words - 1'b1;
          most <= words == 14'd2 ? tail_bytes : 4'd8;
          filled <= filled + 1'b1;
          all_in <= eaten;
          if (burst_whole) state <= ASK;
        end
        ASK: if (req_ready) begin
          sent <= '0;
          state <= WORDS;
        end
        WORDS: if (wr_ready) begin
          sent <= sent + 1'b1;
          if (sent + 6'd1 == filled) begin
            filled <= '0;
            start <= addr;
            if (all_in) state <= seg_last ? DONE : SKIP;
            else if (words != '0) state <= FILL;
            else if (seg_last) begin
              bad <= 1'b1;
              state <= CUT;
            end else state <= SEGMENT;
          end
        end
        CUT: if (over) state <= DONE; // what has no place is taken and forgotten
        SKIP: if (seg_valid && seg_last) state <= DONE;
        default: if (done_ready) begin
          first <= 1'b1;
          all_in <= 1'b0;
          bad <= 1'b0;
          done_bytes <= '0;
          if (!bad) frames <= frames + 1'b1;
          state <= SEGMENT;
        end
      endcase
    end
  end
endmodule
