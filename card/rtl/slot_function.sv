// Written by card/functions.py from card/functions.toml; change that.
// A function of the slot by its id; 0 is none, which neither takes nor gives anything. Each
// function has this port, though not all of them use all of a command.
// verilator lint_off UNUSEDSIGNAL
module slot_function #(
    parameter int ID = 0
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
  if (ID == 1) begin : g // AES-GCM
    fn_gcm u (.*);
  end else if (ID == 2) begin : g // AES-CTR and HMAC-SHA-1
    fn_cipher_hmac #(.CIPHER(0), .HASH(1)) u (.*);
  end else if (ID == 3) begin : g // AES-CBC and HMAC-SHA-1
    fn_cipher_hmac #(.CIPHER(1), .HASH(1)) u (.*);
  end else if (ID == 4) begin : g // 3DES-CBC and HMAC-SHA-1
    fn_cipher_hmac #(.CIPHER(2), .HASH(1)) u (.*);
  end else if (ID == 5) begin : g // AES-CTR and HMAC-SHA-512
    fn_cipher_hmac #(.CIPHER(0), .HASH(2)) u (.*);
  end else if (ID == 6) begin : g // AES-GCM, unrolled
    fn_gcm #(.UNROLLED(1)) u (.*);
  end else begin : g
    assign cmd_ready = '0;
    assign in_ready = '0;
    assign out_valid = '0;
    assign out_block = '0;
    assign out_bytes = '0;
    assign out_last = '0;
    assign icv_valid = '0;
    assign icv = '0;
  end
endmodule
