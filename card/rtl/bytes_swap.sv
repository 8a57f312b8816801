// Turns the order of bytes around: links have the first byte in the lowest bits, the standards
// write it in the highest.
module bytes_swap #(
    parameter int BYTES = 16
) (
    input  logic [BYTES*8-1:0] x,
    output logic [BYTES*8-1:0] y
);
  always_comb for (int i = 0; i < BYTES; i++) y[i*8+:8] = x[(BYTES-1-i)*8+:8];
endmodule
