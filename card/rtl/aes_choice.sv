// AES encryption at the rate that UNROLLED chooses: `aes_iter`, or `aes_unrolled` with hardware for
// every round, which have the same ports.
module aes_choice #(
    parameter bit UNROLLED = 0,
    parameter int SLOTS = 2,
    parameter int TAG = 1
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     key_valid,
    output logic                     key_ready,
    input  logic [$clog2(SLOTS)-1:0] key_slot,   // no block of this slot may be in the core
    input  logic [            255:0] key_data,
    input  logic [              1:0] key_len,
    input  logic                     in_valid,
    output logic                     in_ready,
    input  logic [            127:0] in_data,
    input  logic [$clog2(SLOTS)-1:0] in_slot,
    input  logic [          TAG-1:0] in_tag,
    output logic                     out_valid,
    input  logic                     out_ready,
    output logic [            127:0] out_data,
    output logic [          TAG-1:0] out_tag
);
  if (UNROLLED) begin : g_unrolled
    // S-boxes in logic: with so many in block RAMs, nextpnr does not finish routing X1
    // (docs/lab/results/card.md, "On an FPGA").
    aes_unrolled #(.BLOCK_RAM(0), .SLOTS(SLOTS), .TAG(TAG)) aes (.*);
  end else begin : g_iterative
    aes_iter #(.SLOTS(SLOTS), .TAG(TAG)) aes (.*);
  end
endmodule
