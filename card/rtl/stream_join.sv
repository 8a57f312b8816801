// Puts pieces of 0 to 8 bytes together to one frame of full words: the counterpart of stream_cut,
// and the alignment shifter of the DMA engine. `s_last` ends the frame; a last piece may be empty,
// but not the whole frame. A word a clock; up to 8 bytes are kept back, so that the end always has
// a byte to carry it.
module stream_join (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic [3:0]  s_bytes,
    input  logic        s_last,
    input  logic        s_err,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err
);
  logic [63:0] rest;       // bytes not sent yet, anything above
  logic [3:0]  rest_bytes; // 0 to 8
  logic        flush;      // the frame has ended and `rest` is its last word
  logic        flush_err;
  logic        first;

  logic [63:0] turned; // the piece, its first byte behind the last of `rest`, the bytes that then do not fit at the start
  logic [63:0] joined;
  logic [4:0]  sum_bytes;
  logic        room, over;
  always_comb begin
    turned = 64'({s_data, s_data} << {rest_bytes[2:0], 3'b000} >> 64);
    for (int i = 0; i < 8; i++) joined[8*i +: 8] = 4'(i) < rest_bytes ? rest[8*i +: 8] : turned[8*i +: 8];
  end
  assign sum_bytes = {1'b0, rest_bytes} + {1'b0, s_bytes};
  assign over = sum_bytes > 5'd8;
  assign room = !m_valid || m_ready;
  assign s_ready = room && !flush;

  always_ff @(posedge clk) begin
    if (room) begin
      m_data <= flush ? rest : joined;
      m_sof <= first;
      m_eof <= flush || (s_last && !over);
      m_bytes <= flush ? rest_bytes : over ? 4'd8 : sum_bytes[3:0];
      m_err <= flush ? flush_err : s_err && s_last && !over;
      if (s_valid) rest <= over ? turned : joined;
    end
    if (rst) begin
      m_valid <= 1'b0;
      rest_bytes <= '0;
      flush <= 1'b0;
      first <= 1'b1;
    end else if (room) begin
      m_valid <= 1'b0;
      if (flush) begin
        m_valid <= 1'b1;
        first <= 1'b1;
        flush <= 1'b0;
        rest_bytes <= '0;
      end else if (s_valid) begin
        flush_err <= s_err;
        if (over) begin
          m_valid <= 1'b1;
          first <= 1'b0;
          flush <= s_last;
          rest_bytes <= sum_bytes[3:0] - 4'd8;
        end else if (s_last) begin
          m_valid <= sum_bytes != 5'd0;
          first <= 1'b1;
          rest_bytes <= '0;
        end else begin
          rest_bytes <= sum_bytes[3:0];
        end
      end
    end
  end
endmodule
