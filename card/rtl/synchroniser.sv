// Two registers in a row in the receiver's clock: the first may be metastable for a moment, the
// second has settled. For one bit, or for bits of which only one changes at a time.
module synchroniser #(
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] d, // straight from a register of another clock
    output logic [WIDTH-1:0] q
);
  // Logic must neither be merged with the first nor be put between both.
  (* keep *) logic [WIDTH-1:0] first;
  always_ff @(posedge clk) begin
    first <= d;
    q <= first;
  end
endmodule
