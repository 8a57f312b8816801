// core_fifo: what goes in comes out, once and in order; full and empty are right over every wrap.
// One item, chosen by the solver, is followed by its place, as in formal_fifo.sv.
module formal_core_fifo (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [WIDTH-1:0] in_data,
    input logic out_ready,
    input logic choose
);
  localparam int WIDTH = 2, DEPTH = 4;
  logic in_ready, out_valid;
  logic [WIDTH-1:0] out_data;
  core_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH)) dut (.clk, .rst, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data);

  logic begun = 1'b0;
  logic followed;
  logic [3:0] inside, ahead;
  logic [WIDTH-1:0] item;
  logic put, got;
  assign put = in_valid && in_ready;
  assign got = out_valid && out_ready;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    if (rst) begin
      inside <= '0;
      followed <= 1'b0;
    end else begin
      inside <= inside + {3'b0, put} - {3'b0, got};
      if (put && choose && !followed) begin
        followed <= 1'b1;
        item <= in_data;
        ahead <= inside - {3'b0, got};
      end else if (followed && got) begin
        if (ahead == '0) followed <= 1'b0;
        ahead <= ahead - 1'b1;
      end
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (followed && out_valid && ahead == '0) comes_out_as_it_went_in : assert (out_data == item);
      empty_is_right : assert (out_valid == (inside != '0));
      full_is_right : assert (in_ready == (inside != 4'(DEPTH)));
      holds_no_more_than_it_can : assert (inside <= 4'(DEPTH));
    end
  end
endmodule
