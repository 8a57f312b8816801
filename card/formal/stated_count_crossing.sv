// count_crossing as its own proof states it, for a proof of what contains it: `seen` follows
// `count` in order and is never ahead. What that takes is shown here: the count never comes round
// to what is seen.
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
  (* anyseq *) logic [WIDTH-1:0] further;
  always_ff @(posedge clk) begin
    if (rst) count <= '0;
    else if (step) count <= count + 1'b1;
  end
  always_ff @(posedge to_clk) seen <= to_rst ? '0 : seen + further;
  always_comb begin
    assume (further <= count - seen);
    never_a_lap_ahead : assert (count - seen <= WIDTH'(1 << (WIDTH - 1)));
  end
endmodule
