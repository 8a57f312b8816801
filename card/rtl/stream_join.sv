// Puts pieces of 0 to 8 bytes together to one frame of full words: the counterpart of stream_cut, and the alignment
// shifter of the DMA engine. `s_last` ends the frame; a last piece may be empty, but not the whole frame.
// A word a clock; up to 8 bytes are kept back, so that the end always has a byte to carry it.
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
  logic [63:0] rest;       // bytes not sent yet, zero above
  logic [3:0]  rest_bytes; // 0 to 8
  logic        flush;      // the frame has ended and `rest` is its last word
  logic        flush_err;
  logic        first;

  logic [127:0] sum;
  logic [4:0]   sum_bytes;
  logic [63:0]  piece;
  logic         room;
  assign piece = s_data & ~(64'hffff_ffff_ffff_ffff << {s_bytes, 3'b000});
  assign sum = {64'b0, rest} | ({64'b0, piece} << {rest_bytes, 3'b000});
  assign sum_bytes = {1'b0, rest_bytes} + {1'b0, s_bytes};
  assign room = !m_valid || m_ready;
  assign s_ready = room && !flush;

  always_ff @(posedge clk) begin
    if (room) begin
      if (flush) begin
        m_data <= rest;
        m_sof <= first;
        m_eof <= 1'b1;
        m_bytes <= rest_bytes;
        m_err <= flush_err;
      end else begin
        m_data <= sum[63:0];
        m_sof <= first;
        m_eof <= s_last && sum_bytes <= 5'd8;
        m_bytes <= sum_bytes > 5'd8 ? 4'd8 : sum_bytes[3:0];
        m_err <= s_err && s_last && sum_bytes <= 5'd8;
      end
    end
    if (rst) begin
      m_valid <= 1'b0;
      rest <= '0;
      rest_bytes <= '0;
      flush <= 1'b0;
      first <= 1'b1;
    end else if (room) begin
      m_valid <= 1'b0;
      if (flush) begin
        m_valid <= 1'b1;
        first <= 1'b1;
        flush <= 1'b0;
        rest <= '0;
        rest_bytes <= '0;
      end else if (s_valid) begin
        flush_err <= s_err;
        if (sum_bytes > 5'd8) begin
          m_valid <= 1'b1;
          first <= 1'b0;
          flush <= s_last;
          rest <= sum[127:64];
          rest_bytes <= sum_bytes[3:0] - 4'd8;
        end else if (s_last) begin
          m_valid <= sum_bytes != 5'd0;
          first <= 1'b1;
          rest <= '0;
          rest_bytes <= '0;
        end else begin
          rest <= sum[63:0];
          rest_bytes <= sum_bytes[3:0];
        end
      end
    end
  end
endmodule
