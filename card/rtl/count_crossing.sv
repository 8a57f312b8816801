// A count that a second clock sees: in Gray code, of which a step changes one bit, so that a
// synchroniser sees the count before the step or after it. `seen` follows three clocks of `to_clk`
// behind and may skip values, but is never ahead.
module count_crossing #(
    parameter int WIDTH = 12
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             step,
    output logic [WIDTH-1:0] count,
    input  logic             to_clk,
    input  logic             to_rst,
    output logic [WIDTH-1:0] seen
);
  logic [WIDTH-1:0] next, gray, arrived, binary;
  assign next = count + 1'b1;
  always_ff @(posedge clk) begin
    if (rst) begin
      count <= '0;
      gray <= '0;
    end else if (step) begin
      count <= next;
      gray <= next ^ (next >> 1);
    end
  end

  synchroniser #(.WIDTH(WIDTH)) u_arrived (.clk(to_clk), .d(gray), .q(arrived));
  // Bit n of the count is the parity of the bits of the code from n on.
  always_comb begin
    binary = arrived;
    for (int by = 1; by < WIDTH; by *= 2) binary = binary ^ (binary >> by);
  end
  always_ff @(posedge to_clk) seen <= to_rst ? '0 : binary;
endmodule
