// The clocks as inputs of the solver's own time: in each of its steps a clock has an edge or none,
// each clock for itself, and a register takes its input in a step with an edge.
(* techmap_celltype = "$dff" *)
module clock_ticks (CLK, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  $ff #(.WIDTH(WIDTH)) held (.D(CLK ? D : Q), .Q(Q));
endmodule
