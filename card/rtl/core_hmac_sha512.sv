// HMAC-SHA-512: `hmac` with this hash.
module core_hmac_sha512 (
    input  logic          clk,
    input  logic          rst,
    input  logic          key_valid,
    output logic          key_ready,
    input  logic [1023:0] key,
    input  logic          in_valid,
    output logic          in_ready,
    input  logic [  63:0] in_data,
    input  logic [   3:0] in_bytes,
    input  logic          in_last,
    output logic          mac_valid,
    input  logic          mac_ready,
    output logic [ 511:0] mac
);
  hmac #(.SHA512(1)) hmac (.*);
endmodule
