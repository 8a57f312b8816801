// Blocks of 16 bytes to words of 8 and back, for a cipher of 64-bit blocks. A packet is a whole
// number of words.
module halves (
    input  logic         clk,
    input  logic         rst,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes, // 8 (only in the last) or 16
    input  logic         in_last,
    output logic         to_valid, // the words to the cipher
    input  logic         to_ready,
    output logic [63:0]  to_word,
    output logic         to_last,
    input  logic         from_valid, // and from it
    output logic         from_ready,
    input  logic [63:0]  from_word,
    input  logic         from_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last
);
  logic in_high, in_whole;
  assign in_whole = in_high || in_bytes <= 5'd8;
  assign to_valid = in_valid;
  assign to_word = in_high ? in_block[127:64] : in_block[63:0];
  assign to_last = in_last && in_whole;
  assign in_ready = to_ready && in_whole;

  logic        out_high;
  logic [63:0] low;
  assign out_valid = from_valid && (out_high || from_last);
  assign out_block = out_high ? {from_word, low} : {64'b0, from_word};
  assign out_bytes = out_high ? 5'd16 : 5'd8;
  assign out_last = from_last;
  assign from_ready = out_ready || (!out_high && !from_last);

  always_ff @(posedge clk) begin
    if (rst) begin
      in_high <= 1'b0;
      out_high <= 1'b0;
    end else begin
      if (to_valid && to_ready) in_high <= !in_whole;
      if (from_valid && from_ready) out_high <= !out_high && !from_last;
    end
    if (!out_high) low <= from_word;
  end
endmodule
