// A function of the slot (port: slot_function.sv): AES-GCM as ESP uses it (RFC 4106). A packet
// enters while the last one is finished; new keys wait until none is within. It has no use for a
// hash's key, the second half of an IV, or a command without a cipher.
// verilator lint_off UNUSEDSIGNAL
module fn_gcm #(
    parameter bit UNROLLED = 0
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         cmd_valid,
    output logic         cmd_ready,
    input  logic         cmd_dec,
    input  logic         cmd_null,
    input  logic         cmd_rekey,
    input  logic [255:0] cmd_key,
    input  logic [1:0]   cmd_key_len,
    input  logic [511:0] cmd_auth_key,
    input  logic [31:0]  cmd_salt,
    input  logic [127:0] cmd_iv,
    input  logic [63:0]  cmd_esp,
    input  logic         cmd_esn,
    input  logic [31:0]  cmd_seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last,
    output logic         icv_valid,
    input  logic         icv_ready,
    output logic [255:0] icv
);
  logic keyed; // the keys of this command are in
  logic key_ready, start_ready, may_start;
  logic [127:0] tag;
  assign may_start = keyed || !cmd_rekey;
  assign cmd_ready = may_start && start_ready;
  assign icv = {128'b0, tag};
  always_ff @(posedge clk) begin
    if (rst || (cmd_valid && cmd_ready)) keyed <= 1'b0;
    else if (cmd_valid && cmd_rekey && key_ready) keyed <= 1'b1;
  end
  core_gcm #(.UNROLLED(UNROLLED)) u_gcm (
      .clk, .rst, .key_valid(cmd_valid && cmd_rekey && !keyed), .key_ready, .key(cmd_key), .key_len(cmd_key_len),
      .start_valid(cmd_valid && may_start), .start_ready, .start_dec(cmd_dec), .start_iv({cmd_iv[63:0], cmd_salt}),
      .start_aad(cmd_esn ? {32'b0, cmd_esp[63:32], cmd_seq_hi, cmd_esp[31:0]} : {64'b0, cmd_esp}),
      .start_aad_bytes(cmd_esn ? 5'd12 : 5'd8),
      .in_valid, .in_ready, .in_block, .in_bytes, .in_last, .out_valid, .out_ready, .out_block, .out_bytes, .out_last,
      .tag_valid(icv_valid), .tag_ready(icv_ready), .tag);
endmodule
