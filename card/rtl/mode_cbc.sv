// AES in CBC mode over core_aes. Encryption waits for each block before the next, so one packet uses half of the core's two
// stages; decryption fills both.
// verilator lint_off PINCONNECTEMPTY
module mode_cbc (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [255:0] key,
    input  logic [1:0]   key_len,
    input  logic         start, // between packets
    input  logic         dec,
    input  logic [127:0] iv,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic         out_last
);
  // Encrypting, `chain` is the last block that came out; decrypting, the last that went in.
  logic [127:0] chain, made, prior;
  logic         dec_q, waiting, aes_ready, kept_ready, made_valid, kept_valid, go;
  assign go = !waiting || dec_q;
  assign in_ready = aes_ready && kept_ready && go;
  core_aes u_aes (
      .clk, .rst, .key_valid, .key_ready, .key, .key_len, .in_valid(in_valid && kept_ready && go), .in_ready(aes_ready),
      .in_block(dec_q ? in_block : in_block ^ chain), .in_dec(dec_q), .in_tag('0),
      .out_valid(made_valid), .out_ready(out_ready && kept_valid), .out_block(made), .out_tag());
  core_fifo #(.WIDTH(129), .DEPTH(8)) u_kept (
      .clk, .rst, .in_valid(in_valid && aes_ready && go), .in_ready(kept_ready), .in_data({in_last, chain}),
      .out_valid(kept_valid), .out_ready(out_ready && made_valid), .out_data({out_last, prior}));
  assign out_valid = made_valid && kept_valid;
  assign out_block = dec_q ? made ^ prior : made;

  always_ff @(posedge clk) begin
    if (rst) waiting <= 1'b0;
    else if (in_valid && in_ready) waiting <= 1'b1;
    else if (out_valid && out_ready) waiting <= 1'b0;
    if (start) begin
      chain <= iv;
      dec_q <= dec;
    end else if (dec_q && in_valid && in_ready) chain <= in_block;
    else if (!dec_q && out_valid && out_ready) chain <= made;
  end
endmodule
