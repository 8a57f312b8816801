// HMAC-SHA-1: `hmac` with this hash.
module core_hmac_sha1 (
    input  logic          clk,
    input  logic          rst,
    input  logic          key_valid,
    output logic          key_ready,
    input  logic [ 511:0] key,
    input  logic          in_valid,
    output logic          in_ready,
    input  logic [  63:0] in_data,
    input  logic [   3:0] in_bytes,
    input  logic          in_last,
    output logic          mac_valid,
    input  logic          mac_ready,
    output logic [ 159:0] mac
);
  hmac #(.SHA512(0)) hmac (.*);
endmodule
