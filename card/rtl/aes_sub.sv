// SubBytes and ShiftRows of FIPS-197, or their inverses, on a whole state in one cycle.
module aes_sub #(
    parameter bit INVERSE = 0,
    parameter bit BLOCK_RAM = 1
) (
    input  logic         clk,
    input  logic [127:0] x,
    output logic [127:0] y_q
);
  // Byte n of the state stands in row n % 4, column n / 4; byte 0 is the most significant.
  // Row r moves r columns to the left, or to the right in the inverse.
  function automatic int from(input int n);
    int row, column;
    row = n % 4;
    column = INVERSE ? (n / 4 + 4 - row) % 4 : (n / 4 + row) % 4;
    from = 15 - (column * 4 + row);
  endfunction

  generate
    for (genvar n = 0; n < 16; n += 2) begin : g_pair
      localparam int A = from(n);
      localparam int B = from(n + 1);
      aes_sbox #(
          .INVERSE  (INVERSE),
          .BLOCK_RAM(BLOCK_RAM)
      ) sbox (
          .clk,
          .a  (x[A*8+:8]),
          .b  (x[B*8+:8]),
          .a_q(y_q[(15-n)*8+:8]),
          .b_q(y_q[(14-n)*8+:8])
      );
    end
  endgenerate
endmodule
