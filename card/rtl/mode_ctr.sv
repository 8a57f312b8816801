// AES in counter mode (RFC 3686: nonce, IV, a counter from 1) over core_aes: as fast as the core, a counter block for each
// payload block. Encrypting and decrypting are the same.
// verilator lint_off PINCONNECTEMPTY
module mode_ctr (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [255:0] key,
    input  logic [1:0]   key_len,
    input  logic         start, // between packets
    input  logic [31:0]  salt,
    input  logic [63:0]  iv,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last
);
  logic [31:0]  counter;
  logic [95:0]  nonce;
  logic         aes_ready, kept_ready, stream_valid, kept_valid;
  logic [127:0] stream, kept_block;

  assign in_ready = aes_ready && kept_ready;
  core_aes u_aes (
      .clk, .rst, .key_valid, .key_ready, .key, .key_len, .in_valid(in_valid && kept_ready), .in_ready(aes_ready),
      .in_block({counter[7:0], counter[15:8], counter[23:16], counter[31:24], nonce}), .in_dec(1'b0), .in_tag('0),
      .out_valid(stream_valid), .out_ready(out_ready && kept_valid), .out_block(stream), .out_tag());
  core_fifo #(.WIDTH(134), .DEPTH(8)) u_kept (
      .clk, .rst, .in_valid(in_valid && aes_ready), .in_ready(kept_ready), .in_data({in_last, in_bytes, in_block}),
      .out_valid(kept_valid), .out_ready(out_ready && stream_valid), .out_data({out_last, out_bytes, kept_block}));
  assign out_valid = stream_valid && kept_valid;
  assign out_block = stream ^ kept_block;

  always_ff @(posedge clk) begin
    if (start) begin
      counter <= 32'd1;
      nonce <= {iv, salt};
    end else if (in_valid && in_ready) counter <= counter + 1'b1;
  end
endmodule
