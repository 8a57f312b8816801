// synchroniser as a proof must take it: a bit that changes at the edge is seen as it was before or
// as it is afterwards, each bit for itself.
module synchroniser #(
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] d,
    output logic [WIDTH-1:0] q
);
  (* gclk *) logic time_step;
  (* anyseq *) logic [WIDTH-1:0] late;
  logic [WIDTH-1:0] before, first;
  always_ff @(posedge time_step) before <= d;
  always_ff @(posedge clk) begin
    first <= (before & late) | (d & ~late);
    q <= first;
  end
endmodule
