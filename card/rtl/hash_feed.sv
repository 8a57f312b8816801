// What ESP authenticates, as 64-bit words for an HMAC core: ESP header, IV, ciphertext, and with
// ESN the high half of the sequence number (RFC 4303, 2.2.1).
// verilator lint_off PINCONNECTEMPTY
module hash_feed (
    input  logic         clk,
    input  logic         rst,
    input  logic         start_valid, // the head below
    output logic         start_ready,
    input  logic [63:0]  esp,
    input  logic [127:0] iv,
    input  logic [4:0]   iv_bytes, // 0, 8, 16
    input  logic         esn,
    input  logic [31:0]  seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         m_valid,
    input  logic         m_ready,
    output logic [63:0]  m_data,
    output logic [3:0]   m_bytes,
    output logic         m_last
);
  localparam logic [2:0] IDLE = 0, HEAD = 1, IV0 = 2, IV1 = 3, BODY = 4, TAIL = 5;
  logic [2:0]   state;
  logic [127:0] iv_q;
  logic [63:0]  esp_q, piece;
  logic [31:0]  hi_q;
  logic [4:0]   iv_left;
  logic [3:0]   count;
  logic         esn_q, high, more, valid, ready, last, start;
  assign start_ready = state == IDLE;
  assign start = start_valid && start_ready;

  stream_join u_join (.clk, .rst, .s_valid(valid), .s_ready(ready), .s_data(piece), .s_bytes(count), .s_last(last), .s_err(1'b0),
      .m_valid, .m_ready, .m_data, .m_sof(), .m_eof(m_last), .m_bytes, .m_err());

  assign more = in_bytes > 5'd8; // a block has a second half
  assign in_ready = state == BODY && ready && (high || !more);
  always_comb begin
    valid = state != IDLE && (state != BODY || in_valid);
    count = 4'd8;
    last = 1'b0;
    piece = esp_q;
    case (state)
      IV0: piece = iv_q[63:0];
      IV1: piece = iv_q[127:64];
      BODY: begin
        piece = high ? in_block[127:64] : in_block[63:0];
        count = high ? 4'(in_bytes - 5'd8) : more ? 4'd8 : in_bytes[3:0];
        last = in_last && (high || !more) && !esn_q;
      end
      TAIL: begin
        piece = {32'b0, hi_q};
        count = 4'd4;
        last = 1'b1;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (start) begin
      iv_q <= iv;
      esp_q <= esp;
      hi_q <= seq_hi;
      esn_q <= esn;
      iv_left <= iv_bytes;
    end
    if (rst) begin
      state <= IDLE;
      high <= 1'b0;
    end else if (start) begin
      state <= HEAD;
    end else if (valid && ready) begin
      case (state)
        HEAD: state <= iv_left == '0 ? BODY : IV0;
        IV0: state <= iv_left == 5'd8 ? BODY : IV1;
        IV1: state <= BODY;
        BODY: begin
          high <= !high && more;
          if (in_last && in_ready) state <= esn_q ? TAIL : IDLE;
        end
        default: state <= IDLE;
      endcase
    end
  end
endmodule
