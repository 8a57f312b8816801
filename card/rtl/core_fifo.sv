// A small first-in first-out memory whose head can be seen at once.
module core_fifo #(
    parameter int WIDTH = 128,
    parameter int DEPTH = 4  // a power of two
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);
  localparam int BITS = $clog2(DEPTH);
  (* ram_style = "distributed" *) logic [WIDTH-1:0] memory[DEPTH];
  // One bit more than an address needs, which tells full from empty.
  logic [BITS:0] head, tail;

  assign in_ready  = (tail - head) != (BITS + 1)'(DEPTH);
  assign out_valid = head != tail;
  assign out_data  = memory[head[BITS-1:0]];

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) begin
      memory[tail[BITS-1:0]] <= in_data;
      tail <= tail + 1'b1;
    end
    if (out_valid && out_ready) head <= head + 1'b1;
    if (rst) begin
      head <= '0;
      tail <= '0;
    end
  end
endmodule
